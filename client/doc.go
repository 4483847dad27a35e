// Package client is Tandem's consumer for Go: a group's members share partitions by key, records are handled in parallel with order per key, and
// each is committed on its own.
package client
