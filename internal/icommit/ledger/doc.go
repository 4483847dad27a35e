// Package ledger holds what the fact log says of one group and source partition: the facts of the latest era, a region for each base, and the
// records of eras that are over. Records of the log go in and, for a commit that the primary has accepted, the records to append
// come out: what adds first, what deletes once that is durable.
//
// # Marks
//
// A mark is a record that tells the stable offset: below it everything is done, for every base. It is there for two reasons.
//
//   - Facts below the stable offset are not written, or are deleted. But a commit that was planned before, without these facts, may
//     write a lower stable offset afterwards; it would be all that is left, and a graceful handover would give records again. So
//     with each commit that has facts vanish a mark goes to the log. (No gateway can know that no other one has such a commit under
//     way: one whose consumers repeat what they have committed leaves no trace.)
//   - An era must not have the number of an earlier one, or its facts come back to life. The log remembers which was the last: the
//     first commit of an era leaves a mark there, and the last mark stays until a later era has a record.
//
// # Eras
//
// Records name their era in their key, so what is deleted late, of an era that is over, does not meet the same fact of the next one. What a
// ledger knows of eras is what the log holds: if a gateway remembered more than others can read, they would choose different
// eras after a group was deleted.
//
// When a group is gone its records go but for one, which still names the era (Remains); and that one when nothing of the era can be on its way any more.
//
// The package is pure. A Ledger is not safe for concurrent use.
package ledger
