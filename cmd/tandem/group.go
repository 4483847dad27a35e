package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tandem-kafka/tandem/client/inspect"
	"github.com/tandem-kafka/tandem/internal/config"
)

func newGroup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "Show what a consumer group has not done",
		Args:  noSuchCommand,
		RunE:  help,
	}
	cmd.AddCommand(newGroupDescribe())
	return cmd
}

func newGroupDescribe() *cobra.Command {
	var flags settingFlags
	var topic string
	var asJSON bool
	records := 10
	cmd := &cobra.Command{
		Use:   "describe GROUP",
		Short: "Show a group's members, progress, and the oldest records that it has not done",
		Long: `Show a consumer group: its members, how far it is in each partition, which
offsets are not done above the stable offset, and the oldest records that are not
done, one for each key: with offset, key, attempts, the time of the next attempt,
and the member that owns the key.

It looks only, and knows what is committed: a record whose handler ended a moment
ago is still shown. Groups on views are shown on the views' sources.`,
		Example: "  tandem group describe payments --topic orders --kafka broker:9092",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return fmt.Errorf("one GROUP is needed, not %d: %s", len(args), cmd.UseLine())
		},
	}
	flags.addKafka(cmd, "bootstrap servers of the cluster or of a gateway, `HOST:PORT,...` (default "+config.Default().Listen+")")
	flags.addConfig(cmd)
	cmd.Flags().StringVar(&topic, "topic", "", "only this `TOPIC`, or the source of this view")
	cmd.Flags().IntVar(&records, "records", records, "`NUMBER` of records and offset ranges to show of each partition, at most")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if records < 1 {
			return fmt.Errorf("--records %d: at least 1", records)
		}
		c, up, hint, err := flags.reach(cmd)
		if err != nil {
			return err
		}
		first, cancel := context.WithTimeout(cmd.Context(), c.Limits.StartTimeout)
		defer cancel()
		if err := up.Await(first); err != nil {
			return fmt.Errorf("%w%s", err, hint)
		}
		up.Waiting = nil
		ctx, cancel := context.WithTimeout(cmd.Context(), describeTimeout)
		defer cancel()
		g, err := inspect.Describe(ctx, inspect.Config{
			Upstream: up, Group: args[0], Topic: topic, Records: records, Log: newLogger(cmd.ErrOrStderr(), config.Log{Level: "error"}),
		})
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(cmd.OutOrStdout(), groupOf(g))
		}
		return writeGroup(cmd.OutOrStdout(), g, topic, time.Now())
	}
	return cmd
}

// describeTimeout bounds tandem group describe: it may read many records.
const describeTimeout = time.Minute

// writeGroup writes a group for people, or of it only a topic.
func writeGroup(out io.Writer, g *inspect.Group, topic string, now time.Time) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "group\t%s\nstate\t%s\n", g.Name, g.State)
	if g.Assignor != "" {
		fmt.Fprintf(t, "assignor\t%s\n", g.Assignor)
	}
	for _, n := range g.Notes {
		fmt.Fprintf(t, "note\t%s\n", n)
	}
	if len(g.Members) > 0 {
		fmt.Fprintln(t, "\nMEMBER\tCLIENT\tHOST\tOWNS")
		for i := range g.Members {
			m := &g.Members[i]
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", m.ID, m.ClientID, m.Host, ownsOf(m))
		}
	}
	if len(g.Partitions) == 0 {
		of := ""
		if topic != "" {
			of = " of topic " + topic
		}
		fmt.Fprintf(t, "\nThe group has committed no offset%s, and its members own no partition%s.\n", of, of)
	} else {
		fmt.Fprintln(t, "\nPARTITION\tSTABLE OFFSET\tLOG END\tNOT DONE")
		for i := range g.Partitions {
			p := &g.Partitions[i]
			fmt.Fprintf(t, "%s-%d\t%s\t%d\t%s\n", p.Topic, p.Partition, orDash(p.Stable), p.End, openOf(p))
		}
	}
	if err := t.Flush(); err != nil { // what follows has columns of its own
		return err
	}
	return writeRecords(out, g, now)
}

func writeRecords(out io.Writer, g *inspect.Group, now time.Time) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	some := false
	for i := range g.Partitions {
		p := &g.Partitions[i]
		for j := range p.Records {
			if r := &p.Records[j]; some {
				writeRecord(t, p, r, now)
			} else {
				some = true
				fmt.Fprintln(t, "\nNOT DONE\tOFFSET\tKEY\tWRITTEN\tATTEMPTS\tNEXT ATTEMPT\tOWNER\tLAST ERROR")
				writeRecord(t, p, r, now)
			}
		}
		if p.Cut {
			fmt.Fprintf(t, "%s-%d\tand more\n", p.Topic, p.Partition)
		}
	}
	return t.Flush()
}

func writeRecord(t io.Writer, p *inspect.Partition, r *inspect.Record, now time.Time) {
	place := fmt.Sprintf("%s-%d", p.Topic, p.Partition)
	if r.View != "" {
		place = fmt.Sprintf("%s-%d", r.View, r.Virtual)
	}
	next := "-"
	switch {
	case r.Final:
		next = "none: it is given up"
	case r.Attempts > 0 && r.NextAt.After(now):
		next = "in " + r.NextAt.Sub(now).Round(time.Second/10).String()
	case r.Attempts > 0:
		next = "due"
	}
	owner := "-"
	if r.Owner != nil {
		owner = r.Owner.ID
	}
	fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%s\t%s\t%s\n", place, r.Offset, keyText(r.Key), r.Timestamp.UTC().Format(time.RFC3339), r.Attempts, next, owner, oneLine(fmt.Errorf("%.200s", r.Cause)))
}

// keyText is a key for people: as it is where it can be read, else quoted; without one a dash.
func keyText(key []byte) string {
	s := string(key)
	switch {
	case key == nil:
		return "-"
	case s == "" || s == "-" || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }):
		return strconv.Quote(s)
	}
	return s
}

func orDash(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// ownsOf tells what a member owns, key ranges as the percentage of the key axis.
func ownsOf(m *inspect.Member) string {
	var all []string
	for _, p := range m.Parts {
		s := fmt.Sprintf("%s-%d", p.Topic, p.Partition)
		if len(p.Keys) > 0 {
			s += fmt.Sprintf(" (%.0f %% of its keys)", float64(p.Keys.Len())/(1<<32)*100)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return "nothing"
	}
	const most = 8
	if n := len(all) - most; n > 0 {
		all = append(all[:most], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(all, ", ")
}

// openOf tells which offsets are not done.
func openOf(p *inspect.Partition) string {
	var all []string
	for _, r := range p.Open {
		if r.First == r.Last {
			all = append(all, strconv.FormatInt(r.First, 10))
		} else {
			all = append(all, fmt.Sprintf("%d-%d", r.First, r.Last))
		}
	}
	if n := p.OpenCount - len(p.Open); n > 0 {
		all = append(all, fmt.Sprintf("and %d more ranges", n))
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}
