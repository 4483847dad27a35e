// Package commits reads and writes what a group has done: OffsetFetch and OffsetCommit with Tandem's additions, or without.
//
// A Commits belongs to one group. It finds the group's coordinator, looks what that understands, and sends it the requests over
// a kgo client, past kgo's own routing, which would retry some errors and merge or drop what it does not know. Requests are as large as
// the protocol allows; what does not fit goes into several. The result of each Entry is an error, and Classify says what it means.
//
// An unmodified broker skips the additions and commits the plain offset -1 beside them, and then the group has no offset any
// more. Two things keep that from happening. The features of the coordinator are asked for whenever it is found. And since a connection may
// break and the next one lead elsewhere between a look and a request, the client dials through a Guard: it reads on each
// connection what the broker says that it understands, and lets no addition through that it does not.
package commits
