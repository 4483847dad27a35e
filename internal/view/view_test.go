package view

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
	"pgregory.net/rapid"
)

var orders = Source{Name: "orders", ID: [16]byte{1, 2, 3}, Partitions: 4}

func mustNew(t interface{ Fatal(...any) }, name string, source Source, v int32) Definition {
	d, err := New(name, source, v, 1700)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestNewSaysWhatIsWrongAndWhatWouldDo(t *testing.T) {
	with := func(change func(*Source)) Source {
		s := orders
		change(&s)
		return s
	}
	for _, c := range []struct {
		name   string
		source Source
		v      int32
		want   string // in the error; empty: none
	}{
		{"orders.view16", orders, 16, ""},
		{"wide", orders, 4, ""},
		{"orders.view6", orders, 6, "4 or 8 would do"},
		{"orders.view2", orders, 2, "so that 4 would do"},
		{"orders.view0", orders, 0, "so that 4 would do"},
		{"orders.view12", orders, 12, "8 or 16 would do"},
		{"orders.view9999999", orders, 1<<31 - 1, "at most 8192 would do"},
		{"orders", orders, 8, "its own source"},
		{"a.view8", with(func(s *Source) { s.View = true }), 8, "is a view itself"},
		{"a.view8", with(func(s *Source) { s.Internal = true }), 8, "internal topic"},
		{"a.view50", Source{Name: "__consumer_offsets", Partitions: 50}, 50, "internal topic"},
		{"a.view8", with(func(s *Source) { s.Partitions = 0 }), 8, "no such topic"},
		{"a.view8", with(func(s *Source) { s.Partitions = 20000 }), 8, "at most 10000"},
		{"__tandem_views", orders, 8, "internal"},
		{"a b", orders, 8, "character"},
		{strings.Repeat("x", 250), orders, 8, "249"},
		{"", orders, 8, "not a topic name"},
	} {
		d, err := New(c.name, c.source, c.v, 5)
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("New(%q, %v, %d): %v; want %q", c.name, c.source, c.v, err, c.want)
		case err == nil && (d.Base != 4 || d.K != c.v/4 || d.Partitions != c.v || d.SourceID != orders.ID):
			t.Errorf("New(%q): %+v", c.name, d)
		}
	}
}

func TestParseName(t *testing.T) {
	for name, want := range map[string]struct {
		source string
		v      int32
	}{
		"orders.view16":             {"orders", 16},
		"a.view4.view8":             {"a.view4", 8},
		"orders.view0":              {"orders", 0},
		"orders.view99999999999999": {"orders", 1<<31 - 1},
		"orders.view":               {},
		"orders.view016":            {},
		"orders.view+4":             {},
		"orders.view4x":             {},
		".view4":                    {},
		"orders":                    {},
	} {
		source, v, ok := ParseName(name)
		if ok != (want.source != "") || source != want.source || v != want.v {
			t.Errorf("ParseName(%q) = %q, %d, %v", name, source, v, ok)
		}
		if ok && v < 1<<31-1 && AutoName(source, v) != name {
			t.Errorf("AutoName(%q, %d) = %q", source, v, AutoName(source, v))
		}
	}
}

// Every virtual partition up to PartitionsFor shows exactly one slice, whatever the source has grown to, and
// those that were there keep their meaning.
func TestMappingIsOneToOneAndGrowthChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int32Range(1, 20).Draw(t, "P0")
		k := int32(1) << rapid.IntRange(0, 5).Draw(t, "log2 K")
		d := mustNew(t, "w", Source{Name: "s", Partitions: base}, base*k)
		p1 := rapid.Int32Range(base, base+20).Draw(t, "P1")
		seen := map[int32]bool{}
		for p := range p1 {
			for s := range k {
				v := d.Partition(p, s)
				want := p + base*s
				if p >= base {
					want = base*k + (p-base)*k + s
				}
				if v != want {
					t.Fatalf("Partition(%d, %d) = %d, want %d", p, s, v, want)
				}
				if lp, ls, ok := d.Locate(v); !ok || lp != p || ls != s {
					t.Fatalf("Locate(%d) = %d, %d, %v, want %d, %d", v, lp, ls, ok, p, s)
				}
				if v < 0 || v >= d.PartitionsFor(p1) || seen[v] {
					t.Fatalf("Partition(%d, %d) = %d twice or beyond %d", p, s, v, d.PartitionsFor(p1))
				}
				seen[v] = true
			}
		}
		if len(seen) != int(d.PartitionsFor(p1)) || d.PartitionsFor(base-1) != d.Partitions {
			t.Fatalf("%d virtual partitions, PartitionsFor says %d", len(seen), d.PartitionsFor(p1))
		}
	})
}

func TestVirtualPartitionIsThatOfATopicWithAsMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := mustNew(t, "w", orders, 64)
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		h := keyrange.Hash(key)
		if v := d.VirtualPartition(append([]byte{}, key...), 7, int32(h%4)); v != int32(h%64) {
			t.Fatalf("virtual partition %d, want %d", v, h%64)
		}
		offset := rapid.Int64Range(0, 1<<40).Draw(t, "offset")
		v := d.VirtualPartition(nil, offset, 3)
		if v != 3+4*int32(offset%16) {
			t.Fatalf("null key at %d: virtual partition %d", offset, v)
		}
		_, s, _ := d.Locate(v)
		if !d.KeyRange(s).Contains(d.KeyPosition(nil, offset)) {
			t.Fatalf("position of offset %d is not in the key range of slice %d", offset, s)
		}
	})
}

func TestLocateRefusesNegativeAndPartitionsForSaturates(t *testing.T) {
	d := mustNew(t, "w", orders, 16)
	if _, _, ok := d.Locate(-1); ok {
		t.Error("located -1")
	}
	if n := d.PartitionsFor(1<<31 - 1); n != 1<<31-1 {
		t.Errorf("PartitionsFor = %d", n)
	}
}

func TestDefinitionSurvivesEncoding(t *testing.T) {
	d := mustNew(t, "orders.view16", orders, 16)
	for _, id := range [][16]byte{{}, {255, 254}} {
		d.TopicID = id
		got, err := Decode(d.Encode())
		if err != nil || got != d {
			t.Errorf("%+v became %+v, %v", d, got, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	key, good := mustNew(t, "orders.view16", orders, 16).Encode()
	change := func(change func(map[string]any)) []byte {
		var m map[string]any
		json.Unmarshal(good, &m)
		change(m)
		b, _ := json.Marshal(m)
		return b
	}
	set := func(field string, v any) []byte { return change(func(m map[string]any) { m[field] = v }) }
	for name, value := range map[string][]byte{
		"empty":           {},
		"null":            []byte("null"),
		"array":           []byte("[]"),
		"two values":      append(append([]byte{}, good...), '1'),
		"unknown field":   set("color", "red"),
		"newer version":   set("version", 2),
		"missing field":   change(func(m map[string]any) { delete(m, "slices") }),
		"bad id":          set("sourceId", "abc"),
		"bad topic id":    set("topicId", "!"),
		"K no power of 2": change(func(m map[string]any) { m["slices"], m["partitions"] = 3, 12 }),
		"V is not P0*K":   set("partitions", 32),
		"huge":            change(func(m map[string]any) { m["slices"], m["partitions"] = 1<<30, 1<<31-1 }),
		"overflow":        set("partitions", 1<<40),
		"own source":      set("source", "orders.view16"),
		"bad source":      set("source", "a b"),
		"negative time":   set("createdMs", -1),
	} {
		if d, err := Decode(key, value); err == nil {
			t.Errorf("%s: decoded %+v", name, d)
		}
	}
	if _, err := Decode([]byte("broker/1000"), good); err == nil {
		t.Error("decoded another key")
	}
}

func FuzzDecode(f *testing.F) {
	key, value := mustNew(f, "orders.view16", orders, 16).Encode()
	f.Add(key, value)
	f.Fuzz(func(t *testing.T, key, value []byte) {
		d, err := Decode(key, value)
		if err != nil {
			return
		}
		if err := d.Validate(); err != nil {
			t.Fatal(err)
		}
		again, err := Decode(d.Encode())
		if err != nil || again != d {
			t.Fatalf("%+v became %+v, %v", d, again, err)
		}
	})
}
