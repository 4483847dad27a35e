// Package inspect tells how a group stands: its members and what each owns, and of each partition the stable offset, the log end, which offsets are
// open above it, and the oldest records that are not done, with key, attempts, the time of the next one and the member that owns them. `tandem group describe` shows it.
//
// It looks only. It asks the cluster as a client does: the group's description and offsets, the facts above them, the attempts that members of
// package client keep, and the records themselves. So it knows what is committed: a record whose handler has ended a moment ago is still open.
//
// Groups of stock clients on views, and on topics, are described too. Of these an owner has whole partitions, and attempts are not known.
package inspect
