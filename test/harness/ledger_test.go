package harness

import (
	"testing"
	"time"
)

// ledger makes a correct run: 40 records of 4 keys and some without, two partitions shown as eight, two members.
func ledger() *Ledger {
	l := NewLedger()
	start := time.Unix(1000, 0)
	where := View(2, 4)
	offsets := map[int32]int64{}
	for i := range 40 {
		var key []byte
		if i%5 > 0 {
			key = []byte{'a' + byte(i%5)}
		}
		p := l.Next("orders", key)
		p.Partition = int32(i % 2)
		if key != nil {
			p.Partition = int32(Murmur2(key)&0x7fffffff) % 2
		}
		p.Offset = offsets[p.Partition]
		offsets[p.Partition]++
		l.Acked(p)
		v, _ := where(p)
		at := start.Add(time.Duration(i) * time.Second)
		l.Delivered(Delivery{Member: string('A' + v%2), Partition: v, Offset: p.Offset, N: p.N, Start: at, End: at.Add(time.Second / 2)})
	}
	return l
}

func TestLedgerFindsEachViolation(t *testing.T) {
	later := time.Unix(5000, 0)
	for name, c := range map[string]struct {
		breakIt func(*Ledger)
		count   func(Report) int
		want    int
	}{
		"missing":         {func(l *Ledger) { l.deliveries = l.deliveries[:39] }, func(r Report) int { return r.Missing }, 1},
		"foreign":         {func(l *Ledger) { l.Delivered(Delivery{N: 99}) }, func(r Report) int { return r.Foreign }, 1},
		"other offset":    {func(l *Ledger) { l.deliveries[39].Offset++ }, func(r Report) int { return r.Foreign }, 1},
		"wrong partition": {func(l *Ledger) { l.deliveries[7].Partition += 2 }, func(r Report) int { return r.WrongPartition }, 1},
		"order": {func(l *Ledger) {
			a, b := &l.deliveries[1], &l.deliveries[6]
			a.Start, a.End, b.Start, b.End = b.Start, b.End, a.Start, a.End
		}, func(r Report) int { return r.Order }, 1},
		"overlap": {func(l *Ledger) {
			d := l.deliveries[1]
			d.Member, d.Start = "other", d.Start.Add(time.Second/4)
			l.Delivered(d)
		}, func(r Report) int { return r.Overlap }, 1},
		"duplicate": {func(l *Ledger) {
			d := l.deliveries[1]
			d.Start, d.End = later, later
			l.Delivered(d)
		}, func(r Report) int { return r.Duplicates }, 1},
		"split": {func(l *Ledger) {
			d := l.deliveries[1]
			d.Start, d.End = later, later
			d.Partition++
			l.Delivered(d)
		}, func(r Report) int { return r.Split }, 1},
		"within": {func(l *Ledger) {
			d := l.deliveries[1]
			d.Start, d.End = d.Start.Add(time.Nanosecond), d.End.Add(time.Nanosecond)
			l.Delivered(d)
		}, func(r Report) int { return r.Within }, 1},
		"ahead": {func(l *Ledger) {
			p := l.produced[20]
			l.Committed("orders", p.Partition, p.Offset+1, l.deliveries[20].Start)
			l.Committed("orders", p.Partition, p.Offset, l.deliveries[20].Start)
		}, func(r Report) int { return r.Ahead }, 1},
		"ahead of a lost record": {func(l *Ledger) {
			p := l.produced[39]
			l.deliveries = l.deliveries[:39]
			l.Committed("orders", p.Partition, p.Offset+1, later)
		}, func(r Report) int { return r.Ahead }, 1},
	} {
		l := ledger()
		if r := l.Report(View(2, 4)); r.Bad() || r.Duplicates > 0 || len(r.Members) != 2 {
			t.Fatalf("the correct run: %s", r)
		}
		c.breakIt(l)
		if r := l.Report(View(2, 4)); c.count(r) != c.want {
			t.Errorf("%s: counted %d, want %d: %s", name, c.count(r), c.want, r)
		}
	}
}

// What a member does outside of its group is judged apart.
func TestLedgerKnowsMembersOutside(t *testing.T) {
	zombie := func(surely bool) (*Ledger, Delivery) {
		l := ledger()
		d := l.deliveries[1]
		d.Member, d.Start = "zombie", d.Start.Add(time.Second/4)
		l.Delivered(d)
		l.Outside("zombie", Span{From: d.Start, To: d.End, Surely: surely})
		return l, d
	}
	for _, surely := range []bool{false, true} {
		l, d := zombie(surely)
		if r := l.Report(View(2, 4)); r.Bad() || r.Outside != 1 || r.Duplicates != 0 {
			t.Errorf("surely %v: %s", surely, r)
		}
		l.deliveries = append(l.deliveries[:1], l.deliveries[2:]...) // only the zombie did the record
		p := l.produced[d.N]
		l.Committed("orders", p.Partition, p.Offset+1, d.End)
		want := map[bool]int{true: 1}[surely]
		if r := l.Report(View(2, 4)); r.Missing != want || r.Ahead != want {
			t.Errorf("surely %v, and nobody else did the record: %s", surely, r)
		}
	}
}

func TestLedgerTellsWhatCameAgain(t *testing.T) {
	l := ledger()
	d := l.deliveries[1]
	d.Member, d.Start = "other", d.Start.Add(time.Second)
	l.Delivered(d)
	n := 0
	l.Again(func(_ Produced, first, again Delivery) {
		if n++; first != l.deliveries[1] || again != d {
			t.Errorf("%+v came again as %+v", first, again)
		}
	})
	if n != 1 {
		t.Errorf("%d records came again", n)
	}
	l.Outside(l.deliveries[1].Member, Span{From: l.deliveries[1].Start, To: l.deliveries[1].End})
	l.Again(func(_ Produced, first, again Delivery) { t.Errorf("outside of its group: %+v, then %+v", first, again) })
}

func TestMurmur2(t *testing.T) {
	for key, want := range map[string]int32{"21": -973932308, "foobar": -790332482, "abc": 479470107} { // Kafka's UtilsTest.testMurmur2
		if got := int32(Murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}
