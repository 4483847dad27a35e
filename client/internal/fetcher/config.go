package fetcher

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/tandemmsg"
)

// Reset says where a stream goes on whose offset is out of range.
type Reset uint8

// The reset policies, as of Kafka's auto.offset.reset.
const (
	ResetEarliest Reset = iota // at the log start
	ResetLatest                // at the end; with read_committed at the last stable offset
	ResetNone                  // nowhere: Next reports the error
)

// Config has the settings of a Fetcher. Zero values mean the defaults, where one is named.
type Config struct {
	// Client carries the requests. It must consume nothing, or only paused topics. Required.
	Client *kgo.Client
	// Second carries requests while one of Client waits at the broker; see the package comment. It has the same settings.
	// nil: none.
	Second *kgo.Client

	ReadCommitted     bool
	Reset             Reset
	MaxWait           time.Duration // length of a long poll, 10 ms to 1 min; default 500 ms
	MinBytes          int32         // a broker waits for so much, MaxWait at most; default 1
	MaxBytes          int32         // of a response, but one batch comes always; default 16 MiB
	PartitionMaxBytes int32         // of a stream in a response, but one batch comes always; default 1 MiB
	// Member says who fetches, for the gateway to refuse a member whose key ranges are others' by now; the zero Member: nobody knows. nil: it is not said.
	Member func() tandemmsg.Member

	MaxBuffered int64 // bytes that wait for Next, see the package comment; default 64 MiB

	Log *slog.Logger // default slog.Default()

	errorEvery  time.Duration // between attempts after errors that do not pass by themselves; default 5 s
	reportAfter time.Duration // a retriable error is reported if it lasts so long; default 5 s
}

// Times.
const (
	shortWait   = 50 * time.Millisecond  // of polls that somebody else may have to wait for
	grace       = 5 * time.Millisecond   // a long poll that ends so soon is waited for
	backoffFrom = 50 * time.Millisecond  // after the first retriable error in a row
	backoffTo   = 500 * time.Millisecond // after many
	reportEvery = 10 * time.Second       // an error is reported again
	askSpacing  = 20 * time.Millisecond  // of requests for metadata
	askTimeout  = 10 * time.Second       // of requests for metadata and offsets
)

// ahead is how many answers of a stream may wait for Next.
const ahead = 2

func (c Config) withDefaults() (Config, error) {
	def := func(v *int32, d int32) {
		if *v == 0 {
			*v = d
		}
	}
	def(&c.MinBytes, 1)
	def(&c.MaxBytes, 16<<20)
	def(&c.PartitionMaxBytes, 1<<20)
	if c.MaxWait == 0 {
		c.MaxWait = 500 * time.Millisecond
	}
	if c.MaxBuffered == 0 {
		c.MaxBuffered = 64 << 20
	}
	if c.errorEvery == 0 {
		c.errorEvery = 5 * time.Second
	}
	if c.reportAfter == 0 {
		c.reportAfter = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	switch {
	case c.Client == nil:
		return c, errors.New("fetcher: no client")
	case c.Reset > ResetNone:
		return c, fmt.Errorf("fetcher: unknown reset policy %d", c.Reset)
	case c.MaxWait < 10*time.Millisecond || c.MaxWait > time.Minute:
		return c, fmt.Errorf("fetcher: a wait of %v, 10ms to 1m are allowed", c.MaxWait)
	case c.MinBytes < 0 || c.MaxBytes < 0 || c.PartitionMaxBytes < 0 || c.MaxBuffered < 0:
		return c, errors.New("fetcher: a size below 0")
	}
	return c, nil
}
