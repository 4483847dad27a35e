package executor

import "fmt"

// Order says which records may not run at once and have to run in the order of their offsets.
type Order uint8

// The orders.
const (
	ByKey       Order = iota // those of one key; records without a key have no order
	ByPartition              // those of one partition
	Unordered                // none
)

// Outcome is what happens to a record after its last attempt.
type Outcome uint8

// The outcomes.
const (
	DeadLetter Outcome = iota // a worker gets it as a Task of kind KindDeadLetter; it is done when that succeeds
	Stop                      // nothing starts any more; Output.Stopped says why
	Skip                      // it counts as done
)

// Backoff is how long a failed record waits for its next attempt: First after the first, twice as long after each further
// one, Max at most, in nanoseconds; then up to Jitter percent less, so that records that failed together do not come
// back together.
type Backoff struct {
	First, Max int64
	Jitter     int64 // percent, 0 to 100
}

// Config has the settings of a Machine. Zero values mean the defaults, where one is named.
type Config struct {
	Handlers       int   // how many workers there are, >= 1
	Order          Order // default ByKey
	MaxRecords     int   // in memory; default 16,384
	MaxBytes       int64 // in memory, by Meta.Size; default 64 MiB
	MaxShed        int   // how many records may be left to be read again; 0: none, blocked keys then stop the fetch
	MaxAttempts    int32 // 0: no limit
	Backoff        Backoff
	Last           Outcome
	Lease          int64 // a run that takes longer is reported, every Lease again; 0: never
	CommitInterval int64 // default 200 ms
	MaxRanges      int   // a holding is committed at about this many ranges, and no commit has more; default 1,000
	WatermarkOnly  bool  // of a commit only the watermark is made durable: outputs above it wait
	ShedAfter      int64 // how long a partition is paused with idle workers before records are shed; default 250 ms
	Seed           uint64
}

// Times, in nanoseconds.
const (
	Millisecond int64 = 1e6
	Second      int64 = 1e9
)

func (c Config) withDefaults() (Config, error) {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	records, ranges := int64(c.MaxRecords), int64(c.MaxRanges)
	def(&records, 16384)
	def(&ranges, 1000)
	c.MaxRecords, c.MaxRanges = int(records), int(ranges)
	def(&c.MaxBytes, 64<<20)
	def(&c.CommitInterval, 200*Millisecond)
	def(&c.ShedAfter, 250*Millisecond)
	def(&c.Backoff.First, 100*Millisecond)
	def(&c.Backoff.Max, max(30*Second, c.Backoff.First))
	if c.Order != ByKey {
		c.MaxShed = 0 // nothing else would become ready for it
	}
	switch {
	case c.Handlers < 1:
		return c, fmt.Errorf("%d handlers: at least 1", c.Handlers)
	case c.Order > Unordered:
		return c, fmt.Errorf("unknown order %d", c.Order)
	case c.Last > Skip:
		return c, fmt.Errorf("unknown outcome %d", c.Last)
	case c.MaxRecords < 0 || c.MaxBytes < 0 || c.MaxShed < 0 || c.MaxAttempts < 0 || c.MaxRanges < 0:
		return c, fmt.Errorf("a limit below 0")
	case c.CommitInterval < 0 || c.ShedAfter < 0 || c.Lease < 0 || c.Backoff.First < 0 || c.Backoff.Max < c.Backoff.First:
		return c, fmt.Errorf("a duration below 0, or Backoff.Max below Backoff.First")
	case c.Backoff.Jitter < 0 || c.Backoff.Jitter > 100:
		return c, fmt.Errorf("jitter of %d %%: 0 to 100", c.Backoff.Jitter)
	}
	return c, nil
}

// after is how long to wait after the attempt of this number, from 1.
func (b Backoff) after(attempt int32, chance uint64) int64 {
	d := b.Max
	if shift := max(attempt-1, 0); shift < 40 && b.First<<shift>>shift == b.First {
		d = min(d, b.First<<shift)
	}
	return d - d/100*int64(chance%uint64(b.Jitter+1))
}

// mix makes chances of a seed, an offset and an attempt: splitmix64's finalizer.
func mix(seed uint64, offset int64, attempt int32) uint64 {
	x := seed + uint64(offset)*0x9e3779b97f4a7c15 + uint64(attempt)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
