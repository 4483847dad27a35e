package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/term"

	"github.com/tandem-kafka/tandem/internal/config"
	"github.com/tandem-kafka/tandem/internal/demo"
)

func newDemo() *cobra.Command {
	var flags settingFlags
	var opts demo.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See eight consumers share one partition, half a minute",
		Long: `A topic with one partition, records with keys, handlers that take a few
milliseconds, and a group of unmodified franz-go consumers. First they read the
topic: one works, the others idle. Then the same group moves to a view of it:
all work. One is killed and replaced in the middle. A ledger checks that no
record is lost and that each key's records are handled in order, one at a time.

The speed-up compares the records per second while all consumers are at work
with those of the one that works on the topic. Exit code 1: a check failed.`,
		Example: `  tandem demo
  tandem demo --consumers 16 --json
  tandem demo --kafka broker:9092`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().SortFlags = false
	flags.addKafka(cmd, "run on this cluster, `HOST:PORT,...`, with a topic of its own that it removes; absent: embedded")
	cmd.Flags().IntVar(&opts.Consumers, "consumers", 8, "consumers in the group")
	cmd.Flags().IntVar(&opts.Records, "records", 16000, "records in the topic")
	cmd.Flags().IntVar(&opts.Keys, "keys", 1000, "keys of the records")
	cmd.Flags().DurationVar(&opts.Work, "work", 5*time.Millisecond, "a handler's time for one record")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write the summary as one JSON object; the rest goes to stderr")
	flags.addConfig(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := flags.load()
		if err != nil {
			return err
		}
		opts.Screen = screen(cmd.OutOrStdout())
		if asJSON {
			opts.Screen = screen(cmd.ErrOrStderr())
		}
		s, err := runDemo(cmd, c, opts)
		if err != nil {
			return err
		}
		if asJSON {
			err = writeJSON(cmd.OutOrStdout(), s)
		} else {
			writeSummary(cmd.OutOrStdout(), s)
		}
		if err == nil && s.Failed() {
			err = errors.New("the demo failed: records were lost or handled out of order")
		}
		return err
	}
	return cmd
}

// runDemo starts a gateway of its own, on the cluster of the settings or on a
// temporary engine, and runs the demo through it.
func runDemo(cmd *cobra.Command, c config.Config, opts demo.Options) (s demo.Summary, err error) {
	own := c
	own.Listen, own.Advertise, own.Admin, own.Data = "127.0.0.1:0", "", "", ""
	own.TLS, own.Views.Named = config.ServerTLS{}, nil
	own.Views.AutoCreate = true
	srv, err := startServer(cmd.Context(), own, newLogger(cmd.ErrOrStderr(), config.Log{Level: "error"}), waitingOn(cmd))
	if err != nil {
		return s, err
	}
	defer srv.stop()
	if srv.engine != nil {
		opts.Topic = "orders"
	}
	m, err := mechanism(c.Kafka.SASL)
	if err != nil {
		return s, err
	}
	if m != nil { // clients are themselves to the cluster, here the same user
		opts.ClientOptions = append(opts.ClientOptions, kgo.SASL(m))
	}
	opts.Bootstrap = []string{srv.gateway.Addr()}
	return demo.Run(cmd.Context(), opts)
}

// screen is a picture on a terminal and lines elsewhere.
func screen(w io.Writer) demo.Screen {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return demo.Terminal(w)
	}
	return demo.Lines(w)
}

func writeSummary(w io.Writer, s demo.Summary) {
	fmt.Fprintf(w, `
on the topic    %7.0f records/s, 1 of %d consumers at work
on the view     %7.0f records/s, all at work: %.1f times as fast
ledger          %d records: %d lost, %d out of order, %d handled twice
`, s.PlainRate, s.Consumers, s.ViewRate, s.Speedup, s.Records, s.Lost, s.OrderViolations, s.Duplicates)
}
