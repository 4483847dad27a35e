// Package ledger holds what the fact log says of one group, source partition and base: the facts of the current era, and the records
// of eras that are over. Records of the log go in and, for a commit that the primary has accepted, the records to append
// come out: what adds first, what deletes once that is durable.
//
// The package is pure. A Ledger is not safe for concurrent use.
package ledger
