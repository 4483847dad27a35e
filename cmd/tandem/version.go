package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the build of a release (-ldflags -X main.version=v1.2.3).
var version string

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := versionOf()
		if asJSON {
			return writeJSON(cmd.OutOrStdout(), v)
		}
		fmt.Fprintln(cmd.OutOrStdout(), "tandem", v)
		return nil
	}
	return cmd
}

type versionJSON struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

func (v versionJSON) String() string { return v.Version + " " + v.Commit + " " + v.Go }

func versionOf() versionJSON {
	v := versionJSON{Version: version, Commit: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Go = info.GoVersion
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}
