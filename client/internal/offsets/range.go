package offsets

import "fmt"

// Range is an offset range: the offsets First to Last, both inclusive, 0 <= First <= Last.
type Range struct{ First, Last int64 }

// Contains reports whether offset lies in r.
func (r Range) Contains(offset int64) bool { return r.First <= offset && offset <= r.Last }

func (r Range) String() string { return fmt.Sprintf("[%d-%d]", r.First, r.Last) }
