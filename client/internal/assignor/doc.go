// Package assignor decides which member of a group gets which key ranges of which partitions: the proposal's
// KeyRangeBasedRoundRobinAssignor. It is pure; package balancer carries it into a Kafka client.
//
// For each topic, the sharers are the subscribers that opted in to sharing. Where there are more sharers than partitions, and
// the coordinator allows individual commits and the topic key-range fetch, the sharers are dealt round robin onto the partitions,
// and those of one partition split its key axis evenly. Five consumers on three partitions: the first and the fourth on the first
// partition, the second and the fifth on the second, the third alone. All other topics are dealt as whole partitions, by Kafka's
// ordinary round robin. Of a shared topic, subscribers that did not opt in get the whole partitions that an ordinary round robin
// over all its subscribers would give them, and the sharers share the rest.
//
// # Balance
//
// That result fixes the balance: how many sharers a partition has and how large their shares are (equal up to one position), how
// many whole partitions of each topic, and of all topics together, members get. Who gets which part is free, and so is which of
// the partitions has one sharer more. Assign uses that freedom to leave with each member what it has: its movement, the share of
// the key axis that changes owner summed over the partitions, is never above that of the proposal's own result. When one member
// joins or leaves a shared topic it is the least that the balance allows, plus, in a partition where something moves from one member
// that stays to another, at most 1/32 of its axis for keeping the ranges of each member few (slide.go). A topic that is not shared moves
// about the partitions of the member that left, or what the new one gets.
// With nothing owned, the result of the first topic is the proposal's own; the deal of each further shared topic begins one sharer
// later, so that it is not the same member that is alone on a partition everywhere.
//
// # Cooperative members
//
// A member that holds what it owns through a rebalance is first asked to give up what others are to get: they get it in the
// generation after. See hold.go. When a topic has grown, keys have other positions (the base changes), and all let go of the
// partitions that they share before anybody gets a share by the new positions.
package assignor
