package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// makeConfigured makes the views of the config file that are not there. One
// whose source does not exist waits for it; whatever else is wrong with one is
// an error.
func (g *Gateway) makeConfigured(ctx context.Context) error {
	g.pending = make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(g.cfg.Views)) {
		c := g.cfg.Views[name]
		switch _, err := g.views.Create(ctx, name, c.Source, c.Partitions); {
		case errors.Is(err, errNoSource):
			g.pending[name] = true
			g.log.Warn("a view of the config file waits for its source", "view", name, "source", c.Source, "cure", "create the topic; the view follows within seconds")
		case err != nil:
			return fmt.Errorf("view %s of the config file: %w", name, err)
		}
	}
	return nil
}

// makePending makes those of the config file's views whose source exists now.
func (g *Gateway) makePending(ctx context.Context) {
	if len(g.pending) == 0 {
		return
	}
	var sources []string
	for name := range g.pending {
		sources = append(sources, g.cfg.Views[name].Source)
	}
	topics, err := g.cluster.Topics(ctx, sources...)
	if err != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(g.pending)) {
		c := g.cfg.Views[name]
		if topics[c.Source].Partitions == 0 {
			continue
		}
		if _, err := g.views.Create(ctx, name, c.Source, c.Partitions); err == nil {
			delete(g.pending, name)
		} else if !errors.Is(err, errNoSource) && g.often.now("configured "+name, time.Minute) {
			g.metrics.viewErrors.Inc()
			g.log.Error("a view of the config file cannot be made", "view", name, "cause", err)
		}
	}
}
