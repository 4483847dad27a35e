package assignor

// roundRobin deals the partitions of the topics in turn to their subscribers, as Kafka's RoundRobinAssignor does: it goes round
// all members, skips those that did not subscribe, and goes on where it stopped. The result is by topic (of all topics) and
// partition, nil for topics that are not asked for.
func (p *problem) roundRobin(topics []int) [][]int {
	owner := make([][]int, len(p.topics))
	next := 0 // the member whose turn it is
	for _, t := range topics {
		subscribers := p.topics[t].subscribers
		owner[t] = make([]int, p.topics[t].partitions)
		at := firstFrom(subscribers, next)
		for partition := range owner[t] {
			owner[t][partition] = subscribers[at]
			next = (subscribers[at] + 1) % len(p.members)
			at = (at + 1) % len(subscribers)
		}
	}
	return owner
}

// firstFrom is the index of the first of the ascending members that is not before next, in a circle.
func firstFrom(members []int, next int) int {
	for i, m := range members {
		if m >= next {
			return i
		}
	}
	return 0
}
