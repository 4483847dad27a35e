package main

import (
	"slices"
	"testing"
)

func TestPeersRows(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"pass", "view"}, []string{"pass", "view"}},
		{[]string{"peers", "keys", "zipf"}, []string{"peers-keys", "peers-zipf"}},
		{[]string{"peers"}, []string{"peers-keys", "peers-zipf", "peers-stuck", "peers-bulk", "peers-pace", "peers-restart", "peers-coop-bulk", "peers-coop-pace", "peers-coop-members"}},
	} {
		if got := peersRows(c.args); !slices.Equal(got, c.want) {
			t.Errorf("%v are the tables %v, want %v", c.args, got, c.want)
		}
	}
}

// Rows of arms that were not measured stay, in their places; the others are replaced.
func TestRowsOfOtherArmsStay(t *testing.T) {
	b := benchInFolder(t)
	head := []string{"case", "records/s"}
	if err := b.save(&result{Name: "peers-keys", Head: head, Rows: [][]string{{"plain", "1"}, {"ours", "2"}, {"share", "3"}}}); err != nil {
		t.Fatal(err)
	}
	r := &result{Head: head, Rows: [][]string{{"ours", "5"}, {"new", "6"}}}
	if err := b.keepRows("peers-keys", r, []string{"plain", "share", "ours", "new"}); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"plain", "1"}, {"share", "3"}, {"ours", "5"}, {"new", "6"}}
	if !slices.EqualFunc(r.Rows, want, slices.Equal) {
		t.Errorf("rows %v, want %v", r.Rows, want)
	}
}
