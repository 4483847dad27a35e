package icommit

import "time"

// Hasty makes what a Log waits for in vain short.
func (c Config) Hasty() Config {
	c.gap, c.backoff = 50*time.Millisecond, time.Millisecond
	return c
}
