package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-kafka/tandem/internal/config"
	"github.com/tandem-kafka/tandem/internal/gateway"
)

// viewCommand is what the commands below view have in common.
type viewCommand struct {
	flags settingFlags
	json  bool
}

func newView() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "view",
		Short: "Make, list, describe and delete views",
		Long: `Make, list, describe and delete views. A view is a topic with more partitions
that shows the records of its source; a key's records are always in one of them.

The commands need a Kafka cluster's address, or that of a gateway in front of it.`,
		Args: noSuchCommand,
		RunE: help,
	}
	cmd.AddCommand(newViewCreate(), newViewList(), newViewDescribe(), newViewDelete())
	return cmd
}

// oneName wants the name of a view and nothing else.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	return fmt.Errorf("one NAME of a view is needed, not %d: %s", len(args), cmd.UseLine())
}

// command finishes a view command: its flags, and a connection for run.
func (v *viewCommand) command(cmd *cobra.Command, run func(ctx context.Context, a *gateway.Admin, out io.Writer, args []string) error) *cobra.Command {
	v.flags.addKafka(cmd, "bootstrap servers of the cluster or of a gateway, `HOST:PORT,...` (default "+config.Default().Listen+")")
	v.flags.addConfig(cmd)
	cmd.Flags().BoolVar(&v.json, "json", false, "write JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, up, hint, err := v.flags.reach(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), c.Limits.StartTimeout)
		defer cancel()
		admin, err := gateway.OpenAdmin(ctx, up, newLogger(cmd.ErrOrStderr(), config.Log{Level: "error"}))
		if err != nil {
			return fmt.Errorf("%w%s", err, hint)
		}
		defer admin.Close()
		return run(cmd.Context(), admin, cmd.OutOrStdout(), args)
	}
	return cmd
}

func newViewCreate() *cobra.Command {
	var v viewCommand
	var source string
	var partitions int32
	cmd := &cobra.Command{
		Use:     "create NAME --source TOPIC --partitions N",
		Short:   "Make a view of a topic",
		Example: "  tandem view create orders-wide --source orders --partitions 16",
		Args:    oneName,
	}
	cmd.Flags().StringVar(&source, "source", "", "`TOPIC` whose records the view shows")
	cmd.Flags().Int32Var(&partitions, "partitions", 0, "virtual partitions: the topic's own number times a power of two")
	cmd.MarkFlagRequired("source")
	cmd.MarkFlagRequired("partitions")
	return v.command(cmd, func(ctx context.Context, a *gateway.Admin, out io.Writer, args []string) error {
		w, err := a.Create(ctx, args[0], source, partitions)
		if err != nil {
			return err
		}
		if v.json {
			return writeJSON(out, describe(w))
		}
		fmt.Fprintf(out, "view %s shows topic %s in %d virtual partitions, %d for each of its %d\n", w.Name, w.Source, w.Backing, w.K, w.SourcePartitions)
		return nil
	})
}

func newViewList() *cobra.Command {
	var v viewCommand
	cmd := &cobra.Command{Use: "list", Short: "List the views of the cluster", Args: cobra.NoArgs}
	return v.command(cmd, func(ctx context.Context, a *gateway.Admin, out io.Writer, _ []string) error {
		views, err := a.List(ctx)
		if err != nil {
			return err
		}
		all := make([]viewJSON, len(views))
		for i, w := range views {
			all[i] = describe(w)
		}
		if v.json {
			return writeJSON(out, all)
		}
		t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "VIEW\tSOURCE\tVIRTUAL PARTITIONS\tSTATE")
		for _, w := range all {
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", w.Name, w.Source, w.Partitions, w.State)
		}
		return t.Flush()
	})
}

func newViewDescribe() *cobra.Command {
	var v viewCommand
	cmd := &cobra.Command{Use: "describe NAME", Short: "Show a view and what its virtual partitions hold", Args: oneName}
	return v.command(cmd, func(ctx context.Context, a *gateway.Admin, out io.Writer, args []string) error {
		views, err := a.List(ctx)
		if err != nil {
			return err
		}
		for _, w := range views {
			if w.Name != args[0] {
				continue
			}
			if v.json {
				return writeJSON(out, describe(w))
			}
			return writeView(out, describe(w))
		}
		return fmt.Errorf("there is no view %s", args[0])
	})
}

func newViewDelete() *cobra.Command {
	var v viewCommand
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a view and the groups' progress on it; its source keeps everything",
		Args:  oneName,
	}
	return v.command(cmd, func(ctx context.Context, a *gateway.Admin, out io.Writer, args []string) error {
		if err := a.Delete(ctx, args[0]); err != nil {
			return err
		}
		if v.json {
			return writeJSON(out, struct {
				Deleted string `json:"deleted"`
			}{args[0]})
		}
		fmt.Fprintf(out, "view %s is deleted\n", args[0])
		return nil
	})
}

// viewJSON is a view in --json; its names do not change.
type viewJSON struct {
	Name             string    `json:"name"`
	Source           string    `json:"source"`
	SourceTopicID    string    `json:"source_topic_id"`
	TopicID          string    `json:"topic_id"`          // of the backing topic
	Partitions       int32     `json:"partitions"`        // virtual partitions; 0: the backing topic is missing
	SourcePartitions int32     `json:"source_partitions"` // 0: the source is missing
	Slices           int32     `json:"slices"`            // virtual partitions for each of the source's
	CreatedMs        int64     `json:"created_ms"`
	State            string    `json:"state"` // ready, source missing, backing topic missing
	Slots            []slotSet `json:"virtual_partitions"`
}

// slotSet says which virtual partitions show a partition of the source.
type slotSet struct {
	SourcePartition int32   `json:"source_partition"`
	Partitions      []int32 `json:"partitions"`
}

func describe(w *gateway.View) viewJSON {
	v := viewJSON{
		Name: w.Name, Source: w.Source, SourceTopicID: topicID(w.SourceID), TopicID: topicID(w.BackingID),
		Partitions: w.Backing, SourcePartitions: w.SourcePartitions, Slices: w.K, CreatedMs: w.CreatedMs, State: "ready",
	}
	switch {
	case w.SourcePartitions == 0:
		v.State = "source missing"
	case w.Backing == 0:
		v.State = "backing topic missing"
	}
	v.Slots = make([]slotSet, w.SourcePartitions)
	for p := range v.Slots {
		v.Slots[p] = slotSet{SourcePartition: int32(p), Partitions: []int32{}}
	}
	for vp := range w.Backing {
		if src, _, ok := w.SourceOf(vp); ok {
			s := &v.Slots[src.Partition]
			s.Partitions = append(s.Partitions, vp)
		}
	}
	return v
}

func writeView(out io.Writer, v viewJSON) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "view\t%s\ntopic id\t%s\nstate\t%s\nsource\t%s\nsource topic id\t%s\nvirtual partitions\t%d\nslices of a partition\t%d\ncreated\t%s\n",
		v.Name, v.TopicID, v.State, v.Source, v.SourceTopicID, v.Partitions, v.Slices, time.UnixMilli(v.CreatedMs).UTC().Format(time.RFC3339))
	for _, s := range v.Slots {
		fmt.Fprintf(t, "%s-%d is in\t%s\n", v.Source, s.SourcePartition, strings.Trim(fmt.Sprint(s.Partitions), "[]"))
	}
	return t.Flush()
}

func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
