package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// table is one table of docs/benchmarks.md.
type table struct {
	name, title string
	run         func(*bench) (*result, error)
}

var tables = []table{
	{"pass", "Passing through", passTable},
	{"hop", "One more hop", hopTable},
	{"split", "Splitting", splitTable},
	{"view", "Reading a view", viewTable},
	{"tail", "Near the tail", tailTable},
	{"share", "Sharing work", shareTable},
	{"commits", "Commits through a view", commitsTable},
	{"handover", "Handover of key ranges", handoverTable},
	{"ranges", "A million open ranges", rangesTable},
	{"transactions", "Exactly once", transactionsTable},
	keysCase.table(),
	zipfCase.table(),
	stuckCase.table(),
	bulkCase.table(),
	paceCase.table(),
	restartCase.table(),
	coopBulkCase.table(),
	coopPaceCase.table(),
	coopMembersCase.table(),
	{"memory", "Memory", memoryTable},
	{"many", "Many connections and groups", manyTable},
}

// bench is what the tables share: settings and, once somebody asks for it, the broker.
type bench struct {
	ctx     context.Context
	root    string // of the repository
	dir     string // temporary
	scale   float64
	rounds  int
	port    int
	profile string
	arms    string // which arms of the tables that begin with peers- are measured
	tandem  string // the binary
	kafka   *kafka
	topics  int
	logs    *os.File

	javaCommand []string // starts a consumer in Java
}

func main() {
	if len(os.Args) > 1 && helpers[os.Args[1]] != nil {
		exit(helpers[os.Args[1]](os.Args[2:]))
	}
	b := &bench{}
	list := flag.Bool("list", false, "print the names of the tables")
	render := flag.Bool("render", false, "only write docs/benchmarks.md from bench/results.json")
	flag.Float64Var(&b.scale, "scale", 1, "size of the work; results other than of 1 are printed only")
	flag.IntVar(&b.rounds, "rounds", 5, "turns of each side; the median counts; results of less than 3 are printed only")
	flag.IntVar(&b.port, "port", 24000, "first of 100 ports to use")
	flag.StringVar(&b.profile, "profile", "", "write CPU profiles of the gateways to this `FOLDER`; results are printed only")
	flag.StringVar(&b.arms, "arms", anyArm, "which arms of the peers are measured, a `PATTERN`: plain, share, share-tuned, parallel-key, parallel-unordered, gateway, in-process, cooperative; other rows stay as they are")
	flag.Parse()
	if *list {
		for _, t := range tables {
			fmt.Printf("%-8s %s\n", t.name, t.title)
		}
		return
	}
	exit(b.main(peersRows(flag.Args()), *render))
}

const anyArm = ".*"

// peersRows makes "peers keys zipf" the tables peers-keys and peers-zipf, and "peers" all of them.
func peersRows(names []string) []string {
	if len(names) == 0 || names[0] != "peers" {
		return names
	}
	var all []string
	for _, t := range tables {
		if row, ok := strings.CutPrefix(t.name, "peers-"); ok && len(names) == 1 {
			all = append(all, "peers-"+row)
		}
	}
	for _, row := range names[1:] {
		all = append(all, "peers-"+row)
	}
	return all
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (b *bench) main(names []string, render bool) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b.ctx = ctx
	for _, n := range names {
		if !slices.ContainsFunc(tables, func(t table) bool { return t.name == n }) {
			return fmt.Errorf("there is no table %q, see -list", n)
		}
	}
	if b.root, err = findRoot(); err != nil {
		return err
	}
	if render {
		return b.render()
	}
	if err := b.prepare(); err != nil {
		return err
	}
	defer b.cleanUp()
	for _, t := range tables {
		if len(names) > 0 && !slices.Contains(names, t.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "== %s (load %s)\n", t.title, loadAverage())
		load, start := loadAverage(), time.Now()
		r, err := t.run(b)
		if err != nil {
			return fmt.Errorf("table %s: %w", t.name, err)
		}
		r.Name, r.Title = t.name, t.title
		r.Machine, r.Commit, r.Load, r.Date = describeMachine(), b.commit(), load, start.UTC().Format("2006-01-02 15:04 MST")
		r.Seconds = time.Since(start).Seconds()
		fmt.Println(r.text())
		if b.counts() {
			if err := b.save(r); err != nil {
				return err
			}
		}
	}
	if !b.counts() {
		return nil
	}
	return b.render()
}

// counts says that this is a measurement and no trial.
func (b *bench) counts() bool { return b.scale == 1 && b.rounds >= 3 && b.profile == "" }

// prepare builds the binary and makes a temporary folder.
func (b *bench) prepare() (err error) {
	if b.dir, err = os.MkdirTemp("", "tandem-bench-"); err != nil {
		return err
	}
	if b.logs, err = os.Create(filepath.Join(b.dir, "log")); err != nil {
		return err
	}
	b.tandem = filepath.Join(b.dir, "tandem")
	return b.command("go", "build", "-o", b.tandem, "./cmd/tandem")
}

func (b *bench) cleanUp() {
	if b.kafka != nil {
		b.kafka.stop(b)
	}
	_ = b.logs.Close()
	_ = os.RemoveAll(b.dir)
}

func (b *bench) name(prefix string) string {
	b.topics++
	return fmt.Sprintf("%s-%d", prefix, b.topics)
}

// scaled is n at scale 1, but at least least.
func (b *bench) scaled(n, least int) int { return max(least, int(float64(n)*b.scale)) }

func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "   "+format+"\n", args...)
}

func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("run this inside the repository")
		}
		dir = up
	}
}

// commit is what is measured; the results of this run itself make no difference.
func (b *bench) commit() string {
	out, err := b.output("git", "describe", "--always")
	if err != nil {
		return "unknown"
	}
	out = strings.TrimSpace(out)
	if changed, err := b.output("git", "status", "--porcelain", "--", ".", ":!bench/results.json", ":!docs/benchmarks.md"); err != nil || changed != "" {
		out += "-dirty"
	}
	return out
}
