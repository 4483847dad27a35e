// Package progress owns the rules of a group's progress on the views of one source partition: what Kafka's committed
// offsets mean together, where each slice starts, and which rows a commit writes.
//
// A view row is a client's commit for one slice: everything below its offset in that slice is done. The source row holds
// the stable offset: the first offset whose record is not done, over all slices. Both carry a text that names the era.
//
//   - Era: rows count only in the current era, the one that the source row names. A source row that is not ours (a plain
//     consumer, a reset, another tool) begins the next era: everything starts there. Era 0 is that of a group that had no
//     source row.
//   - Step: a commit that goes back gets a step above those of all rows that overlap its slice, and makes rows of
//     lower steps void at its positions. Of the rows that are left the highest offset decides. So a commit that goes back
//     changes no other row, and no gateway with an old picture of the rows can undo it. Later commits keep to the step.
//   - A view row without an era was written by a tool on the broker. It decides for its slice as it is, and the next
//     commit adopts it: writes it again with a step of its own.
//   - The source row also names the rewinds that its writer knew, as a checksum. Where the rows tell of others, it is no
//     bound for slices that were set back; for all others, the base that it carries is.
//
// The package is pure. A Picture is not safe for concurrent use.
package progress
