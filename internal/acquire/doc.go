// Package acquire decides which member of a group works on which offsets of a partition in a cooperative fetch. A State is what the fact log says
// of one group, topic partition and era: entries of the log go in, in its order, and who may be given what, and the entries to append for it, come
// out. Any number of gateways hold a State of the same log and come to the same verdicts.
//
// # Entries
//
//   - An acquisition gives a member a range of offsets, and says how many times its records have then been given out: its attempt. Without a
//     member it gives the range back: nobody works on it.
//   - A session entry says that a member is there. A gateway appends one when a member that holds something was last announced a quarter of its session
//     timeout ago.
//
// # Who wins
//
// An acquisition wins if, at its place in the log, nobody else holds any of its offsets: they were never given out, were given back, or are held by
// a member that it names as over together with the position in the log up to which it knows of that member. So does one that is late and counts attempts wrongly. If a session
// entry of the member, or the acquisition that is to be taken over, lies behind that position, the member was there after all, and the entry loses as a
// whole. So the first of two entries that want the same wins, whichever gateways they come from.
//
// What was never told to its member counts no attempt: a gateway may acquire offsets for a member before there are records, keep them for it, and take them back, or give them to
// another one, with the attempt as it was before. So it is with what the member says that it does not have. It tells the member of them only within a session timeout from when it planned an entry of the member that is in the log: whoever
// takes the member for over does so a third of the timeout later.
//
// A member is over for a gateway when it has not been seen for 4/3 of its session timeout, when the group has it no more, or when it says itself
// that it does not have what the log says (its answer was lost). That is each gateway's own opinion; the log's order decides.
//
// # Compaction
//
// Each entry has a key of its own, so that compaction removes it only after it was deleted. An acquisition is deleted when all of its offsets are done
// or were taken over, but not before those that it took offsets from; a session entry when another one has followed it. Entries that have lost are
// deleted before any other: a reader of what compaction has left must not see one that lost without what it lost against. What is done
// counts for nothing in a verdict, since gateways hear of it at different times.
//
// What is done is not in these entries: it is committed, individually.
//
// A State that is wrong, because the log was lost, makes records be given out twice, and never lost: what is not done is given out again.
//
// The package is pure. Times are milliseconds of the caller's clock.
package acquire
