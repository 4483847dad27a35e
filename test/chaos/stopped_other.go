//go:build !linux

package chaos

import "time"

// stopped gives the threads of a process time to stop: only Linux shows when they have.
func stopped(int) string { time.Sleep(100 * time.Millisecond); return "" }
