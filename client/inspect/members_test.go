package inspect

import (
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
)

func TestOwnerIsWhoHasTheKeyAlone(t *testing.T) {
	half := func(s int32) []Part {
		return []Part{{Topic: "orders", Partition: 0, Keys: keyrange.Set{keyrange.OfSlice(s, 2)}, Base: 1}, {Topic: "invoices", Partition: 0}}
	}
	in := &inspection{out: &Group{Members: []Member{{ID: "low", Parts: half(0)}, {ID: "high", Parts: append(half(1), Part{Topic: "orders", Partition: 1})}}}}
	at := func(position uint32) func(int32) uint32 { return func(int32) uint32 { return position } }
	for _, c := range []struct {
		name      string
		topic     string
		partition int32
		position  func(int32) uint32
		want      string
	}{
		{"the lower half", "orders", 0, at(1<<31 - 1), "low"},
		{"the upper half", "orders", 0, at(1 << 31), "high"},
		{"a partition without a position is nobody's where it is in parts", "orders", 0, nil, ""},
		{"a whole partition", "orders", 1, at(0), "high"},
		{"one that several have whole", "invoices", 0, at(0), ""},
		{"one that nobody has", "orders", 2, at(0), ""},
	} {
		got := ""
		if m := in.ownerOf(c.topic, c.partition, c.position); m != nil {
			got = m.ID
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
