package client

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tandem-kafka/tandem/keyrange"
)

// warnings collects the lines of a log from Warn on.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

func (l *warnings) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

// about is how many lines name a topic and have a text.
func (l *warnings) about(topic, text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, "topic="+topic+"\n") && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Which topics are missing is said at once, and when they are made later the client goes on with them.
func TestMissingTopicsAreNamed(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]Option{
		"by key":        {ShareByKey(), Topics("t", "later")},
		"by record":     {ShareByRecord(), Topics("t", "later")},
		"transactional": {ShareByKey(), Transactional("me"), Topics("t", "later")},
		"assigned":      {Topics(), Assign(Ranges{"t": {0: {keyrange.Full}}, "later": {0: {keyrange.Full}}})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.Topic("t", 1)
			w.produce("t", 5, 5)
			log := &warnings{}
			c := w.run(w.judge("a", nil), append([]Option{DeadLetter("dead"), KgoOpts(kgo.MetadataMaxAge(100*time.Millisecond), kgo.MetadataMinAge(20*time.Millisecond))},
				append(slices.Clone(opts), Logger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))))...)...)
			w.until("both are named", func() bool { return log.about("later", "create it") > 0 && log.about("dead", "create it") > 0 })
			if name != "assigned" { // which begins when it knows all topics
				w.until("what is there is read", func() bool { return w.count() == 5 })
			}
			w.Topic("later", 1)
			w.produce("later", 5, 5)
			w.until("what came later is read", func() bool { return w.count() == 10 })
			c.close()
			if n := log.about("later", "does not exist") + log.about("dead", "does not exist"); n != 2 || log.about("t", "") > 0 {
				t.Errorf("the log says %q", log.lines)
			}
		})
	}
}
