package gateway

import (
	"context"
	"log/slog"

	"github.com/tandem-kafka/tandem/internal/upstream"
)

// Admin makes, lists and deletes views with nothing but a connection to the
// cluster (or to a gateway in front of it): what the command line needs.
type Admin struct{ g *Gateway }

// OpenAdmin connects to the cluster and loads the definitions.
func OpenAdmin(ctx context.Context, cfg upstream.Config, log *slog.Logger) (*Admin, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cluster, err := upstream.Open(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	g := &Gateway{cluster: cluster, log: log, metrics: newMetrics()}
	g.views = newViews(g)
	if err := g.views.load(ctx); err != nil {
		cluster.Close()
		return nil, err
	}
	return &Admin{g: g}, nil
}

// Close ends the connection.
func (a *Admin) Close() { a.g.cluster.Close() }

// Create makes a view, see views.Create; made anew or there already are the
// same.
func (a *Admin) Create(ctx context.Context, name, source string, partitions int32) (*View, error) {
	return a.g.views.Create(ctx, name, source, partitions)
}

// Delete ends a view and, with its backing topic, the groups' progress on it.
func (a *Admin) Delete(ctx context.Context, name string) error {
	return a.g.views.Delete(ctx, name)
}

// List returns every view, by name, as the cluster shows it now.
func (a *Admin) List(ctx context.Context) ([]*View, error) {
	if err := a.g.views.lookAll(ctx); err != nil {
		return nil, err
	}
	return a.g.views.All(), nil
}
