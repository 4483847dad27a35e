package consume

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-kafka/tandem/client"
)

func TestLinesOfCommandsDoNotMix(t *testing.T) {
	var out screen
	o := NewOutput(&out, true)
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			l := o.of(order(func(r *client.Record) { r.Offset = int64(i) }))
			for n := range 100 {
				fmt.Fprintf(l, "%d", i)
				fmt.Fprintf(l, "/%d\n%d", n, i)
				fmt.Fprint(l, "\n")
			}
			fmt.Fprint(l, "end")
			l.end()
		})
	}
	work.Wait()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 8*201 {
		t.Errorf("%d lines", len(lines))
	}
	next := [8]int{}
	for _, line := range lines {
		var i, n int
		if c, _ := fmt.Sscanf(line, "orders-3@%d: %d/%d", &i, new(int), &n); c == 3 {
			if n != next[i] || line != fmt.Sprintf("orders-3@%d: %d/%d", i, i, n) {
				t.Fatalf("%q", line)
			}
			next[i]++
		}
	}
	if next != [8]int{100, 100, 100, 100, 100, 100, 100, 100} {
		t.Error(next)
	}
}

func TestALineWithoutEndIsCut(t *testing.T) {
	var out screen
	l := NewOutput(&out, false).of(order(nil))
	text := strings.Repeat("x", 2*maxLine+10)
	for _, part := range []string{text[:10], text[10 : maxLine+3], text[maxLine+3:]} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Error(n, err)
		}
	}
	l.end()
	if want := text[:maxLine] + "\n" + text[:maxLine] + "\n" + text[:10] + "\n"; out.String() != want {
		t.Errorf("%d bytes, not %d", len(out.String()), len(want))
	}
}
