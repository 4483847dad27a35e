// Package simtest is a random model of groups that read a source and its views through several gateways. It drives
// internal/progress with everything that can go wrong around it: gateways with old pictures of the rows, commits that
// are delayed, repeated, reordered or lost, transactions that end late, resets, rewinds, expiry, moves between the
// source and its views. A history follows from its seed alone.
//
// The judge knows the truth: which records are done, and which have to be done again. After every change of the stored
// rows it checks the guarantees of the project (invariants in check.go).
package simtest
