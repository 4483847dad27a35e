package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestGroupDescribe(t *testing.T) {
	s := startServing(t, "--listen", fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	var records []*kgo.Record
	for _, key := range []string{"a", "a", "b", "b", "c\n", "a"} {
		records = append(records, &kgo.Record{Topic: "orders", Key: []byte(key)})
	}
	if err := cl.ProduceSync(t.Context(), append(records, &kgo.Record{Topic: "orders"}, &kgo.Record{Topic: "orders", Key: []byte{0xff}})...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	describe := func(args ...string) (int, string, string) {
		t.Helper()
		return run(t, append(append([]string{"group", "describe"}, args...), "--kafka", s.bootstrap)...)
	}
	for _, c := range []struct{ args, want string }{
		{"nobody", "there is no group nobody"},
		{"", "one GROUP is needed"},
		{"g --records 0", "at least 1"},
	} {
		code, stdout, stderr := describe(strings.Fields(c.args)...)
		if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("group describe %s: exit code %d, stdout %q, stderr %q; want one line with %q", c.args, code, stdout, stderr, c.want)
		}
	}
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: "orders", Partition: 0, At: 1, LeaderEpoch: -1})
	if err := admin.CommitAllOffsets(t.Context(), "g", offsets); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := describe("g", "--json")
	var g groupJSON
	if err := json.Unmarshal([]byte(stdout), &g); err != nil || code != 0 || len(g.Partitions) != 1 {
		t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	p := g.Partitions[0]
	var found []string
	for _, r := range p.Records {
		key := "none"
		if r.KeyBase64 != nil {
			key = *r.KeyBase64
		}
		found = append(found, fmt.Sprintf("%d %s %t %t", r.Offset, key, r.Key != nil, r.Owner != nil))
	}
	want := "1 YQ== true false, 2 Yg== true false, 4 Ywo= true false, 6 none false false, 7 /w== false false"
	if got := strings.Join(found, ", "); got != want || g.State != "Empty" || p.Stable != 1 || p.LogEnd != 8 || fmt.Sprint(p.Open) != "[{1 7}]" || p.Cut {
		t.Errorf("%s, want %s\n%+v", got, want, g)
	}
	_, stdout, _ = describe("g", "--topic", "orders", "--records", "3")
	for _, want := range []string{"state  Empty\n", "orders-0   1              8        1-7\n", `orders-0  4       "c\n"`, "and more\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if _, stdout, _ := describe("g", "--topic", "invoices"); !strings.Contains(stdout, "The group has committed no offset of topic invoices") {
		t.Errorf("of another topic: %s", stdout)
	}
	if _, stdout, _ := describe("g", "--topic", "invoices", "--json"); !strings.Contains(stdout, `"partitions": []`) {
		t.Errorf("of another topic: %s", stdout)
	}
}
