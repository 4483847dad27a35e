package rules

import (
	"strings"
	"testing"
)

// An operator looks up what the log says: the table has to have the messages as they are written, or their beginnings.
func TestDocumentedLogMessagesAreWritten(t *testing.T) {
	const page = "docs/operations.md"
	_, table, ok := strings.Cut(read(t, page), "## What the log says\n")
	table, _, ok2 := strings.Cut(table, "\n## ")
	if !ok || !ok2 {
		t.Fatalf("%s lacks the section", page)
	}
	var all strings.Builder
	for _, f := range code(t) {
		if !strings.HasSuffix(f, "_test.go") {
			all.WriteString(read(t, f))
		}
	}
	found := 0
	for line := range strings.Lines(table) {
		message, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !ok || message == "message" || !strings.HasPrefix(line, "| ") {
			continue
		}
		if found++; !strings.Contains(all.String(), `"`+message) {
			t.Errorf("%s explains %q, which nothing logs: take the message as it is in the code", page, message)
		}
	}
	if found < 20 {
		t.Errorf("%s explains %d messages: the table is not read right", page, found)
	}
}
