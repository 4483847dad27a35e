// Package rules holds the repository's own rules as tests. Each message says why the rule exists.
package rules

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/test/harness"
)

// pure are the packages whose code may not touch the world.
var pure = []string{"keyrange", "tandemmsg", "internal/view", "internal/progress", "internal/split", "internal/region", "internal/acquire", "internal/icommit/record", "internal/icommit/ledger", "client/internal/assignor",
	"client/internal/offsets", "client/internal/done", "client/internal/executor"}

// worldly are the imports that pure packages may not have.
var worldly = []string{"time", "net", "os", "log", "log/slog", "sync", "sync/atomic", "math/rand", "math/rand/v2", "crypto/rand", "context"}

// files lists the files of the repository, as paths from its root: those in git and the new ones that are not ignored.
func files(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-co", "--exclude-standard")
	cmd.Dir = harness.Root()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var list []string
	for _, f := range strings.Fields(string(out)) {
		if _, err := os.Stat(filepath.Join(harness.Root(), f)); err == nil {
			list = append(list, f)
		}
	}
	return list
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(harness.Root(), file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(harness.Root(), file), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		list = append(list, path)
	}
	return list
}

// code are the Go files that are no tests.
func code(t *testing.T) []string {
	return slices.DeleteFunc(files(t), func(f string) bool { return !strings.HasSuffix(f, ".go") || strings.HasSuffix(f, "_test.go") })
}

func TestPurePackagesTouchNothing(t *testing.T) {
	for _, f := range code(t) {
		if !slices.Contains(pure, filepath.Dir(f)) {
			continue
		}
		for _, i := range imports(t, f) {
			if slices.Contains(worldly, i) || strings.HasPrefix(i, "net/") || strings.HasPrefix(i, "os/") {
				t.Errorf("%s imports %q: this package is pure, so that simulations can run it with a clock and chances of their own and repeat what "+
					"they found; take time, randomness and I/O as arguments", f, i)
			}
		}
	}
}

func TestOnlyUpstreamUsesTheClient(t *testing.T) {
	allowed := []string{"internal/upstream", "internal/demo", "cmd/tandem/demo.go", "cmd/tandem/consume_cluster.go", "bench", "client", "test", "examples"}
	for _, f := range code(t) {
		if slices.ContainsFunc(allowed, func(dir string) bool { return f == dir || strings.HasPrefix(f, dir+"/") }) {
			continue
		}
		for _, i := range imports(t, f) {
			if i == "github.com/twmb/franz-go/pkg/kgo" || i == "github.com/twmb/franz-go/pkg/kadm" {
				t.Errorf("%s imports %q: only internal/upstream talks to the cluster with a client library, so that connections, credentials and retries "+
					"are decided in one place", f, i)
			}
		}
	}
}

func TestEveryPackageSaysWhatItOwns(t *testing.T) {
	docs := map[string]bool{}
	for _, f := range files(t) {
		if !strings.HasSuffix(f, ".go") || strings.Contains(f, "testdata/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(harness.Root(), f), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Error(err)
			continue
		}
		dir := filepath.Dir(f)
		docs[dir] = docs[dir] || parsed.Doc != nil && len(parsed.Doc.Text()) > 40
	}
	for dir, ok := range docs {
		if !ok {
			t.Errorf("package %s has no doc comment that says what it owns: a newcomer reads it first", dir)
		}
	}
}

func TestFilesStaySmall(t *testing.T) {
	for _, f := range files(t) {
		if ext := filepath.Ext(f); !slices.Contains([]string{".go", ".py", ".java", ".js", ".md"}, ext) {
			continue
		}
		switch n := strings.Count(read(t, f), "\n"); {
		case n > 800:
			t.Errorf("%s has %d lines, 800 is the limit: find the second idea in it and give that a file of its own", f, n)
		case n > 500:
			t.Logf("%s has %d lines: past 500, look for a second idea in it", f, n)
		}
	}
}

// docs/cases.md has a table row "| V7 | what | `test/file_test.go` TestName |" for each case, and the test's file says "case V7".
func TestEveryCaseHasItsTest(t *testing.T) {
	rows := map[string][]string{}
	for line := range strings.Lines(read(t, "docs/cases.md")) {
		if m := regexp.MustCompile(`^\| ([VIC]\d+) \|`).FindStringSubmatch(line); m != nil {
			rows[m[1]] = append(rows[m[1]], line)
		}
	}
	for n := 1; n <= 20; n++ {
		if name := "V" + strconv.Itoa(n); len(rows[name]) == 0 {
			t.Errorf("docs/cases.md lacks %s", name)
		}
	}
	for name := range rows {
		for _, row := range rows[name] {
			tests := regexp.MustCompile("`([^` ]+_test\\.go)` (Test\\w+)").FindAllStringSubmatch(row, -1)
			if len(tests) == 0 {
				t.Errorf("docs/cases.md names no test of %s: a case is done when a test shows its outcome", name)
			}
			for _, m := range tests {
				text, err := os.ReadFile(filepath.Join(harness.Root(), m[1]))
				if err != nil {
					t.Errorf("docs/cases.md, %s: %v", name, err)
					continue
				}
				if !strings.Contains(string(text), "func "+m[2]+"(") {
					t.Errorf("docs/cases.md, %s: %s has no %s", name, m[1], m[2])
				}
				if !regexp.MustCompile(`\bcases? ([VIC]\d+(,| and) )*` + name + `\b`).Match(text) {
					t.Errorf("docs/cases.md, %s: %s does not say %q beside the test: it keeps the list and the tests together", name, m[1], "case "+name)
				}
			}
		}
	}
}

// docs/proposal.md names files and tests: they are there.
func TestTheProposalsProofsAreThere(t *testing.T) {
	tests := ""
	all := files(t)
	for _, f := range all {
		if strings.HasSuffix(f, "_test.go") {
			tests += read(t, f)
		}
	}
	page := read(t, "docs/proposal.md")
	for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(page, -1) {
		if !strings.Contains(tests, "func "+name+"(") {
			t.Errorf("docs/proposal.md: there is no %s: it says what shows each part of the proposal", name)
		}
	}
	for _, m := range regexp.MustCompile("`((?:test/cases/|internal/|client|tandemmsg|examples/)[\\w./-]*)`").FindAllStringSubmatch(page, -1) {
		if !slices.ContainsFunc(all, func(f string) bool { return f == m[1] || strings.HasPrefix(f, m[1]+"/") }) && !strings.HasPrefix(m[1], "client.") {
			t.Errorf("docs/proposal.md: there is no %s", m[1])
		}
	}
}

// What must not be in a public repository. The words are put together here, so that this file passes its own test.
func TestNothingOfOneMachine(t *testing.T) {
	forbidden := map[string]*regexp.Regexp{
		"a path of one machine":               regexp.MustCompile(`(^|[\s"'=(:` + "`" + `])/(wo` + `rk|ro` + `ot|ho` + `me/\w+)/`),
		"a package registry's own host":       regexp.MustCompile(`(?i)registry\.npm` + `js|files\.python` + `hosted|pypi\.` + `org|proxy\.gol` + `ang|repo1?\.mav` + `en|deb\.deb` + `ian`),
		"a word of a workplace, not of Kafka": regexp.MustCompile(`(?i)\b(sub` + `agent|this se` + `ssion's|C` + `EO|ll` + `m|cla` + `ude|open` + `ai|shared/(des` + `ign|st` + `yle|ca` + `ses|k` + `ip)\.md)\b`),
	}
	for _, f := range files(t) {
		if f == "go.sum" || strings.HasSuffix(f, "/go.sum") || strings.Contains(f, "testdata/") {
			continue
		}
		for number, line := range strings.Split(read(t, f), "\n") {
			for what, re := range forbidden {
				if m := re.FindString(line); m != "" {
					t.Errorf("%s:%d: %q is %s: the repository has to mean the same everywhere", f, number+1, m, what)
				}
			}
		}
	}
}

// A generated part of a document says which test rewrites it; that test fails when the part is out of date.
func TestGeneratedPartsHaveATest(t *testing.T) {
	marker := regexp.MustCompile(`<!-- [^>]*made by go test (\./\S+) -update -->`)
	for _, f := range files(t) {
		if !strings.HasSuffix(f, ".md") {
			continue
		}
		for _, m := range marker.FindAllStringSubmatch(read(t, f), -1) {
			all := ""
			tests, _ := filepath.Glob(filepath.Join(harness.Root(), m[1], "*_test.go"))
			for _, test := range tests {
				b, _ := os.ReadFile(test)
				all += string(b)
			}
			if !strings.Contains(all, `flag.Bool("update"`) || !strings.Contains(all, filepath.Base(f)) {
				t.Errorf("%s: no test of %s has the flag -update and names %s: the part would grow stale unseen", f, m[1], filepath.Base(f))
			}
		}
	}
}

// The soak tests share SOAK_MINUTES by the percentages that they pass to harness.Soak.
func TestSoakSharesFitIn(t *testing.T) {
	call := regexp.MustCompile(`harness\.Soak\(\w+, (\d+)\)`)
	sum := 0
	for _, f := range files(t) {
		if strings.HasSuffix(f, "_test.go") && !strings.HasPrefix(f, "test/rules/") {
			for _, m := range call.FindAllStringSubmatch(read(t, f), -1) {
				n, _ := strconv.Atoi(m[1])
				sum += n
			}
		}
	}
	if sum > 100 {
		t.Errorf("the shares of harness.Soak sum up to %d %%: `make soak` would take longer than SOAK_MINUTES", sum)
	}
}
