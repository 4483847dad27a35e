package executor

import "github.com/tandem-kafka/tandem/keyrange"

// Claim is handed tasks of one holding: Records are their offsets and positions.
type Claim struct {
	Keys    keyrange.Set
	Records []Outputs
}

// Claims sorts handed tasks by holding. Those whose holding is gone are left out.
func (m *Machine[R]) Claims(tasks []*Task[R]) (list []Claim) {
	index := map[*holding[R]]int{}
	for _, t := range tasks {
		h := t.hold
		if h.stage == gone {
			continue
		}
		i, ok := index[h]
		if !ok {
			i = len(list)
			index[h] = i
			list = append(list, Claim{Keys: h.keys})
		}
		list[i].Records = append(list[i].Records, Outputs{Offset: t.offset, Position: m.position(t)})
	}
	return list
}
