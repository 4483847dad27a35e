package slicecache

import (
	"context"
	"log/slog"
	"time"

	"github.com/tandem-kafka/tandem/internal/split"
	"github.com/tandem-kafka/tandem/keyrange"
)

// Source names a source partition. A topic that was deleted and made anew has another TopicID and is another source.
type Source struct {
	Topic     string
	TopicID   [16]byte
	Partition int32
}

// Upstream reads source partitions from the cluster. Errors are *kerr.Error for what Kafka answered, and anything
// else for a cluster that could not be reached. An Upstream retries leader changes itself for a short while only.
type Upstream interface {
	// Fetch reads from offset on. It waits up to maxWait for minBytes. An answer without the partition in it (a throttled
	// one) is not a result: Fetch must ask again.
	Fetch(ctx context.Context, src Source, offset int64, readCommitted bool, maxWait time.Duration, minBytes, maxBytes int32) (Fetched, error)
	// ListOffset answers as Kafka's ListOffsets does; timestamp is in ms or one of Kafka's negative constants.
	ListOffset(ctx context.Context, src Source, timestamp int64, readCommitted bool) (offset, ts int64, leaderEpoch int32, err error)
}

// Fetched is a partition's part of a Fetch answer.
type Fetched struct {
	Raw              []byte // record batches; the last may be cut off
	Aborted          []split.Aborted
	HighWatermark    int64
	LastStableOffset int64
	LogStart         int64
	// Free, where it is not nil, takes Raw back for another answer. It is called at most once, when nothing refers to Raw any more;
	// where Raw is kept for longer it is not called at all.
	Free func()
}

// Config bounds a Cache. Zero fields get their defaults.
type Config struct {
	MaxBytes         int64         // bound of all memory held, max.bytes.key.range.hashing; default 128 MiB
	MaxResponseBytes int           // bound of what one Fetch hands out; default 16 MiB
	LoadBytes        int32         // size of one load from the cluster; default 1 MiB
	PollWait         time.Duration // length of one long poll at the end of the source; default 500 ms
	ReadAhead        int           // blocks loaded ahead of the one that is served; default 2
	TailScanBytes    int64         // bound of one backward search for own ends; default 64 MiB
	IdleAfter        time.Duration // a partition nobody reads is forgotten after it; default 5 min
	Logger           *slog.Logger  // default slog.Default()
}

func (c Config) withDefaults() Config {
	def := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.MaxBytes, 128<<20)
	def(&c.TailScanBytes, 64<<20)
	if c.MaxResponseBytes <= 0 {
		c.MaxResponseBytes = 16 << 20
	}
	if c.LoadBytes <= 0 {
		c.LoadBytes = 1 << 20
	}
	if c.PollWait <= 0 {
		c.PollWait = 500 * time.Millisecond
	}
	if c.ReadAhead <= 0 {
		c.ReadAhead = 2
	}
	if c.IdleAfter <= 0 {
		c.IdleAfter = 5 * time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// FetchRequest asks for slices, as a Fetch request of Kafka asks for partitions.
type FetchRequest struct {
	Slices        []SliceRequest
	ReadCommitted bool
	MaxWait       time.Duration
	MinBytes      int32
	MaxBytes      int32 // bound of the whole answer; the first piece is given even if it is larger
	Lease         *Lease
}

// SliceRequest asks for the records of one slice from Offset on: of slice Slice of Slicing, or of the key ranges Keys.
type SliceRequest struct {
	Source  Source
	Slicing split.Slicing
	Slice   int32
	// Keys, where it is not empty, asks for the records in these key ranges, of keys that were partitioned by Slicing.Base; the rest of
	// Slicing and Slice are ignored. The set must not change while Fetch runs.
	Keys keyrange.Set
	// IndexOnly keeps of what is read for Keys only where they have no records (key.range.hashing.load=key): memory serves for
	// far more offsets, but who comes later than the others reads the records from the cluster again.
	IndexOnly bool
	Offset    int64
	MaxBytes  int32
}

// SliceResult answers a SliceRequest.
type SliceResult struct {
	// Err is a *kerr.Error that consumers understand; Data is then empty.
	Err error
	// Data holds complete record batches, in offset order. They are shared: never write to them.
	Data [][]byte
	// End is the slice's own end: the high watermark, or last stable offset, to answer. It is never below the offset asked
	// for nor below the offset after Data. While records lie ahead it may be lower than the true end, but it lies beyond Data.
	End int64
	// EndKnown is false when nothing is known of the slice beyond Data; End is then the source's end. For Keys it always
	// is: Scanned says more.
	EndKnown bool
	// Far says that End is not known and that more lies before it than is looked through for an answer: it may take many fetches to
	// learn more.
	Far bool
	// LogStart is the source's log start offset, -1 if it is not known.
	LogStart int64
	// HighWatermark and LastStableOffset are the source's own, as of the last answer that told them; -1 if they are not known.
	HighWatermark, LastStableOffset int64
	// Scanned is the offset up to which the slice was looked through: between the end of Data and Scanned is no record, so all of
	// the slice from Offset to Scanned is in Data. With an error it is Offset.
	Scanned int64
}
