// Package demo shows and checks what a view does: a topic with one partition,
// slow handlers, and a group of unmodified franz-go consumers that first reads
// the topic, where one of them works, and then moves on to a view of it, where
// all do. A ledger of every handled record is the judge.
//
// It needs the address of a gateway and nothing else of Tandem.
package demo
