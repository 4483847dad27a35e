package main

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/tandem-kafka/tandem/client/inspect"
)

// The group in --json; names do not change.
type (
	groupJSON struct {
		Group      string          `json:"group"`
		State      string          `json:"state"`
		Assignor   string          `json:"assignor"`
		Members    []memberJSON    `json:"members"`
		Partitions []partitionJSON `json:"partitions"`
		Notes      []string        `json:"notes"`
	}
	memberJSON struct {
		ID         string     `json:"member_id"`
		InstanceID string     `json:"instance_id,omitempty"`
		ClientID   string     `json:"client_id"`
		Host       string     `json:"host"`
		Owns       []partJSON `json:"owns"`
	}
	partJSON struct {
		Topic     string     `json:"topic"`
		Partition int32      `json:"partition"`
		KeyRanges []keysJSON `json:"key_ranges,omitempty"` // none: the whole partition
		Base      int32      `json:"base,omitempty"`       // of the key ranges
	}
	keysJSON struct {
		First uint32 `json:"first"`
		Last  uint32 `json:"last"`
	}
	offsetsJSON struct {
		First int64 `json:"first"`
		Last  int64 `json:"last"`
	}
	partitionJSON struct {
		Topic     string        `json:"topic"`
		Partition int32         `json:"partition"`
		Stable    int64         `json:"stable_offset"` // -1: nothing was committed
		LogStart  int64         `json:"log_start"`
		LogEnd    int64         `json:"log_end"`
		Open      []offsetsJSON `json:"open"`
		OpenCount int           `json:"open_count"`
		Records   []recordJSON  `json:"records"`
		Cut       bool          `json:"more_records"`
		Views     []viewAtJSON  `json:"views,omitempty"`
	}
	recordJSON struct {
		Offset     int64   `json:"offset"`
		Key        *string `json:"key"` // null: none, or not UTF-8
		KeyBase64  *string `json:"key_base64"`
		WrittenMs  int64   `json:"timestamp_ms"`
		Owner      *string `json:"owner"` // a member id
		View       string  `json:"view,omitempty"`
		Virtual    *int32  `json:"virtual_partition,omitempty"`
		Attempts   int     `json:"attempts"`
		NextMs     int64   `json:"next_attempt_ms"` // 0: as soon as possible
		IsFinal    bool    `json:"given_up"`
		LastError  string  `json:"last_error"`
		ClientID   string  `json:"owner_client_id,omitempty"`
		ClientHost string  `json:"owner_host,omitempty"`
	}
	viewAtJSON struct {
		View       string        `json:"view"`
		Partitions []virtualJSON `json:"virtual_partitions"`
	}
	virtualJSON struct {
		Partition int32   `json:"partition"`
		Committed int64   `json:"committed"` // -1: not known
		End       int64   `json:"end"`
		Owner     *string `json:"owner"`
	}
)

func groupOf(g *inspect.Group) groupJSON {
	out := groupJSON{Group: g.Name, State: g.State, Assignor: g.Assignor, Members: []memberJSON{}, Partitions: []partitionJSON{}, Notes: append([]string{}, g.Notes...)}
	for i := range g.Members {
		m := &g.Members[i]
		to := memberJSON{ID: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, Host: m.Host, Owns: []partJSON{}}
		for _, p := range m.Parts {
			part := partJSON{Topic: p.Topic, Partition: p.Partition, Base: p.Base}
			for _, k := range p.Keys {
				part.KeyRanges = append(part.KeyRanges, keysJSON(k))
			}
			to.Owns = append(to.Owns, part)
		}
		out.Members = append(out.Members, to)
	}
	for i := range g.Partitions {
		out.Partitions = append(out.Partitions, partitionOf(&g.Partitions[i]))
	}
	return out
}

func partitionOf(p *inspect.Partition) partitionJSON {
	out := partitionJSON{Topic: p.Topic, Partition: p.Partition, Stable: p.Stable, LogStart: p.Start, LogEnd: p.End,
		Open: []offsetsJSON{}, OpenCount: p.OpenCount, Records: []recordJSON{}, Cut: p.Cut}
	for _, r := range p.Open {
		out.Open = append(out.Open, offsetsJSON(r))
	}
	for i := range p.Records {
		r := &p.Records[i]
		to := recordJSON{Offset: r.Offset, WrittenMs: r.Timestamp.UnixMilli(), View: r.View, Attempts: r.Attempts, IsFinal: r.Final, LastError: r.Cause}
		if r.Key != nil {
			text := base64.StdEncoding.EncodeToString(r.Key)
			to.KeyBase64 = &text
			if key := string(r.Key); utf8.ValidString(key) {
				to.Key = &key
			}
		}
		if r.View != "" {
			to.Virtual = &r.Virtual
		}
		if !r.NextAt.IsZero() {
			to.NextMs = r.NextAt.UnixMilli()
		}
		if r.Owner != nil {
			to.Owner, to.ClientID, to.ClientHost = &r.Owner.ID, r.Owner.ClientID, r.Owner.Host
		}
		out.Records = append(out.Records, to)
	}
	for _, v := range p.Views {
		to := viewAtJSON{View: v.Name, Partitions: []virtualJSON{}}
		for _, at := range v.Partitions {
			vp := virtualJSON{Partition: at.Partition, Committed: at.Committed, End: at.End}
			if at.Owner != nil {
				vp.Owner = &at.Owner.ID
			}
			to.Partitions = append(to.Partitions, vp)
		}
		out.Views = append(out.Views, to)
	}
	return out
}
