// Package inprocess owns the gateway that a program carries in its process to
// use a cluster that has none: one for all clients of the process, started with
// the first of them and shut down with the last, and the options with which kgo
// reaches it.
package inprocess
