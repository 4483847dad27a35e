package icommit

import (
	"log/slog"
	"sync"
	"time"
)

// limiter writes each kind of warning once a minute: whoever may write to the topic could fill the log.
type limiter struct {
	mu    sync.Mutex
	kinds map[string]*silence
}

type silence struct {
	until time.Time
	count int // warnings swallowed
}

func (w *limiter) log(logger *slog.Logger, kind, message string, args ...any) {
	w.mu.Lock()
	s := w.kinds[kind]
	if s == nil {
		if w.kinds == nil {
			w.kinds = make(map[string]*silence)
		}
		s = &silence{}
		w.kinds[kind] = s
	}
	now := time.Now()
	if now.Before(s.until) {
		s.count++
		w.mu.Unlock()
		return
	}
	if s.count > 0 {
		args = append(args, "more like it", s.count)
	}
	*s = silence{until: now.Add(time.Minute)}
	w.mu.Unlock()
	logger.Warn(message, args...)
}
