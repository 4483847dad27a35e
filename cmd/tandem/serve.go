package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tandem-kafka/tandem/internal/config"
	"github.com/tandem-kafka/tandem/internal/rest"
)

func newServe() *cobra.Command { return newServeWith(&settingFlags{}) }

func newServeWith(flags *settingFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway in front of a Kafka cluster, or of the embedded engine",
		Long: `Run the gateway. Clients connect to it as to Kafka, and may subscribe to
SOURCE.viewN instead of SOURCE: N consumers then share the topic's partitions,
each key always with one of them.

Without --kafka an embedded engine keeps the records, in --data.

When clients may connect, one line on stdout begins "ready: bootstrap HOST:PORT".
SIGTERM lets requests under way finish and exits with 0.`,
		Example: `  tandem serve --kafka broker1:9092,broker2:9092 --listen 0.0.0.0:9192 --advertise tandem.example.com
  tandem serve --data ./data`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().SortFlags = false
	flags.addKafka(cmd, "`HOST:PORT,...` of the cluster; absent: the embedded engine")
	flags.add(cmd, "listen", "`HOST:PORT` that clients bootstrap from; the brokers' ports follow it (default "+config.Default().Listen+")", func(c *config.Config, v string) { c.Listen = v })
	flags.add(cmd, "advertise", "`HOST` that clients are told to connect to", func(c *config.Config, v string) { c.Advertise = v })
	flags.add(cmd, "data", "`DIR` of the embedded engine; absent: gone when tandem ends", func(c *config.Config, v string) { c.Data = v })
	flags.add(cmd, "admin", "`HOST:PORT` of /healthz, /readyz and /metrics; absent: off", func(c *config.Config, v string) { c.Admin = v })
	flags.add(cmd, "log-level", "`LEVEL`: debug, info, warn or error (default info)", func(c *config.Config, v string) { c.Log.Level = v })
	flags.addConfig(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := flags.load()
		if err != nil {
			return err
		}
		return serve(cmd, c)
	}
	return cmd
}

// serve runs until the command's context ends.
func serve(cmd *cobra.Command, c config.Config) error {
	ctx := cmd.Context()
	log := newLogger(cmd.ErrOrStderr(), c.Log)
	log.Debug("settings", "config", fmt.Sprintf("%+v", c.Redacted()))
	admin, err := startAdmin(c.Admin)
	if err != nil {
		return err
	}
	defer admin.stop()
	s, err := startServer(ctx, c, log, waitingIn(log))
	if err != nil {
		if ctx.Err() != nil { // told to end before it had started
			log.Info("ended before clients could connect", "cause", context.Cause(ctx))
			return nil
		}
		return err
	}
	admin.ready(s.gateway.Metrics())
	switch {
	case s.engine == nil:
		log.Info("serving", "kafka", strings.Join(c.Kafka.Bootstrap, ","))
	case s.engine.Temporary():
		log.Warn("serving the embedded engine without --data: its records go when tandem ends")
	default:
		log.Info("serving the embedded engine", "data", s.engine.Dir())
	}
	fmt.Fprintln(cmd.OutOrStdout(), "ready: bootstrap", s.gateway.Addr())
	rest.Watch(ctx)
	log.Info("ending", "cause", context.Cause(ctx))
	admin.draining()
	s.stop()
	return nil
}
