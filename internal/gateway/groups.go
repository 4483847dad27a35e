package gateway

// groups is what the gateway knows of groups' progress on views.
type groups struct{ gw *Gateway }

func newGroups(g *Gateway) *groups { return &groups{gw: g} }
