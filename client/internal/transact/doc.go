// Package transact writes records in transactions of one transactional id: all of a transaction at once, with a commit of offsets as its last part.
//
// A transaction is short: it begins when all that it is to hold is there. What it holds is the caller's, so that an aborted one can be done again.
//
// After an error nobody trusts the producer any more: it is thrown away, and a new one takes over its transactional id, which ends whatever the old one left open.
// When the answer to a transaction's end gets lost, it is Unknown whether it was committed. A new producer has it decided (Decide), and then the committed offsets tell.
//
// A producer is fenced when another process uses its transactional id, or when its transaction took longer than the transaction timeout. Kafka does not say which; the clock does.
package transact
