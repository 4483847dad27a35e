// Package gateway owns the listeners and the client connections: it passes the
// Kafka protocol on to the cluster as bytes, and answers or rewrites only what
// views change. One file per Kafka API that it owns; conn.go and pump.go hold
// the two goroutines of a connection.
package gateway
