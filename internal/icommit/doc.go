// Package icommit owns the log of facts: the compacted topic __individual_commit_offsets, in which gateways keep what is committed
// above the stable offset. Its records and their place are package record's; the requests to the cluster are upstream's (Facts); what
// the facts mean together is their holder's, which gets them through a Handler.
//
// # The log
//
//   - A group's records are in the partition of the number that its offsets have in __consumer_offsets. Facts only add, so any number of
//     gateways write without owning anything, and order and repetition do not matter.
//   - Append has what it adds acknowledged by all in-sync replicas before it sends what it deletes: whatever fails in
//     between, a fact that was replaced is covered.
//   - A partition is followed from the first CatchUp of one of its groups on: it is read from its start, in the order of the log and read
//     committed, and then its end is watched, until nobody has used it for a while.
//   - CatchUp returns when the handler has what the log held when CatchUp was called. The partition's leader says where that ends. It is compared
//     with the position of the reader, not with the last record: the log may end in markers, or in what was compacted away.
//   - A topic that was deleted, made anew, given more partitions, or cut short is read from its start again; the handler's Reset comes
//     before. Nothing is lost by it but facts, whose records are then delivered again.
//   - What cannot be read is skipped, counted and logged: a record, or a whole batch.
//
// # Goroutines and locks
//
// Each followed partition has one goroutine, the only one that calls the handler for it. Questions to the cluster that many callers have at
// the same time are asked once (rounds). Log.mu (the followers, the topic) is taken before follower.mu (a follower's position and waiters);
// neither is held while the cluster is asked or the handler runs.
package icommit
