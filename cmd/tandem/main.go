package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(execute(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, "tandem:", oneLine(err))
		return 1
	}
	return 0
}

// oneLine joins the lines of an error of several parts.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "tandem",
		Short:         "Many consumers on one Kafka partition, in order per key, with the clients you have",
		Version:       versionOf().String(),
		Args:          noSuchCommand,
		RunE:          help,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if !strings.HasPrefix(err.Error(), "unknown ") {
			return err
		}
		return fmt.Errorf("%w; %s --help shows those there are", err, cmd.CommandPath())
	})
	root.SetVersionTemplate("tandem {{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newServe(), newConsume(), newView(), newGroup(), newDemo(), newVersion())
	return root
}

// help is what a command does that only has others below it.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// noSuchCommand refuses what follows such a command.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q; %s --help shows those there are", args[0], cmd.CommandPath())
}
