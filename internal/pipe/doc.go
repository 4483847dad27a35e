// Package pipe owns connections within the process: two ends that behave as
// those of a TCP connection do, with bounded buffers, deadlines, and an end that
// is clean or a reset. No system call is made and no goroutine runs for them.
package pipe
