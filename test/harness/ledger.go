package harness

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"
)

// Produced is a record that was acknowledged.
type Produced struct {
	N         int64 // unique in the ledger; part of the value
	Topic     string
	Partition int32 // of the source
	Offset    int64
	Key       []byte // nil for none
	Seq       int64  // rises within a key
}

// Delivery is a record whose handler has ended in a consumer.
type Delivery struct {
	Member     string
	Partition  int32 // as the consumer saw it
	Offset     int64 // -1: not known
	N          int64 // from the value; -1 when the value is none of ours
	Start, End time.Time
}

// value is the text of each record's value, as in the kit of test/clients.
type value struct {
	K   *string `json:"k"`
	Seq int64   `json:"seq"`
	N   int64   `json:"n"`
	Pad string  `json:"pad,omitempty"`
}

func encode(p Produced, size int) []byte {
	v := value{Seq: p.Seq, N: p.N}
	if p.Key != nil {
		s := string(p.Key)
		v.K = &s
	}
	b, _ := json.Marshal(v)
	if missing := size - len(b) - len(`,"pad":""`); missing > 0 {
		v.Pad = strings.Repeat("abcdefgh", missing/8+1)[:missing]
		b, _ = json.Marshal(v)
	}
	return b
}

// number reads N out of a value.
func number(b []byte) int64 {
	v := value{N: -1}
	if json.Unmarshal(b, &v) != nil {
		return -1
	}
	return v.N
}

// Ledger holds what was produced, delivered and committed, and judges it. It may be used by many goroutines.
type Ledger struct {
	mu         sync.Mutex
	next       int64
	seqs       map[string]int64
	produced   map[int64]Produced
	deliveries []Delivery
	done       map[int64]bool
	open       int // records that are produced and not done
	commits    []commit
	anyOrder   bool
	outside    map[string][]Span
}

// Span is a time in which a member was outside of its group, or may have been: it worked on, and others had its partitions already. What
// it did then says nothing about order and overlap.
type Span struct {
	From, To time.Time
	// Surely: the group had dropped the member before it could commit. Then nothing of it counts as done either. Otherwise it does.
	Surely bool
}

type commit struct {
	topic     string
	partition int32
	offset    int64
	at        time.Time
}

// NewLedger makes an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{seqs: map[string]int64{}, produced: map[int64]Produced{}, done: map[int64]bool{}, outside: map[string][]Span{}}
}

// AnyOrder has the ledger take no notice of keys: nobody promised an order.
func (l *Ledger) AnyOrder() *Ledger {
	l.anyOrder = true
	return l
}

// Next gives the next record of a key its number and sequence. Its partition and offset follow with Acked.
func (l *Ledger) Next(topic string, key []byte) Produced {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := Produced{N: l.next, Topic: topic, Key: key}
	l.next++
	if key != nil {
		id := topic + "\x00" + string(key)
		p.Seq = l.seqs[id]
		l.seqs[id]++
	}
	return p
}

// Acked records that Kafka has acknowledged a record.
func (l *Ledger) Acked(p Produced) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.produced[p.N]; !known && !l.done[p.N] {
		l.open++
	}
	l.produced[p.N] = p
}

// Delivered records that a handler has ended. It is called before the offset commit.
func (l *Ledger) Delivered(d Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deliveries = append(l.deliveries, d)
	if _, known := l.produced[d.N]; known && !l.done[d.N] {
		l.open--
	}
	l.done[d.N] = true
}

// Committed records that at this time the committed offset of a partition of a source was seen: the stable offset, all below it done.
func (l *Ledger) Committed(topic string, partition int32, offset int64, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits = append(l.commits, commit{topic, partition, offset, at})
}

// Outside tells of a member's work outside of its group: of the deliveries that ended in one of the spans. It replaces what was told of the
// member before.
func (l *Ledger) Outside(member string, spans ...Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outside[member] = spans
}

// span finds whether a delivery was made outside of the group, and surely so.
func (l *Ledger) span(d Delivery) (outside, surely bool) {
	for _, s := range l.outside[d.Member] {
		if !d.End.Before(s.From) && !d.End.After(s.To) {
			outside, surely = true, surely || s.Surely
		}
	}
	return outside, surely
}

// Again calls f with each two deliveries of one record, of which the first was made within the group and began before the other.
func (l *Ledger) Again(f func(p Produced, first, again Delivery)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	byRecord := map[int64][]Delivery{}
	for _, d := range l.deliveries {
		byRecord[d.N] = append(byRecord[d.N], d)
	}
	for n, list := range byRecord {
		slices.SortStableFunc(list, func(a, b Delivery) int { return a.Start.Compare(b.Start) })
		for i, first := range list {
			if outside, _ := l.span(first); outside {
				continue
			}
			for _, again := range list[i+1:] {
				f(l.produced[n], first, again)
			}
		}
	}
}

// Open counts the records that are acknowledged and not yet delivered.
func (l *Ledger) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Deliveries counts the deliveries so far.
func (l *Ledger) Deliveries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.deliveries)
}

// FirstOpen returns the offset of the first record of each partition of a source that is acknowledged and not delivered, and how many
// records were delivered that lie above one of these.
func (l *Ledger) FirstOpen(topic string) (first map[int32]int64, above int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first = map[int32]int64{}
	for _, p := range l.produced {
		if at, ok := first[p.Partition]; p.Topic == topic && !l.done[p.N] && (!ok || p.Offset < at) {
			first[p.Partition] = p.Offset
		}
	}
	for _, p := range l.produced {
		if at, ok := first[p.Partition]; p.Topic == topic && l.done[p.N] && ok && p.Offset > at {
			above++
		}
	}
	return first, above
}

// Members counts the deliveries of each member so far.
func (l *Ledger) Members() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]int{}
	for _, d := range l.deliveries {
		all[d.Member]++
	}
	return all
}

// AwaitDone waits until every acknowledged record was delivered.
func (l *Ledger) AwaitDone(t testing.TB, limit time.Duration) {
	t.Helper()
	for within := Until(limit); l.Open() > 0; time.Sleep(20 * time.Millisecond) {
		if !within() {
			t.Fatalf("not within %v: %d records are not delivered: %s", limit, l.Open(), l.Report(nil))
		}
	}
}

// Report is the judgement of a ledger. Every count but those up to Outside must be 0 in an undisturbed run; duplicates are allowed after a
// crash.
type Report struct {
	Produced, Deliveries int
	Members              map[string]int // deliveries of each
	Duplicates           int            // deliveries of a record beyond its first
	Outside              int            // deliveries by members outside of the group, duplicates or not
	Missing              int            // acknowledged records that nobody got
	Foreign              int            // deliveries of something that was not acknowledged, or at another offset
	Order                int            // first deliveries of a key whose sequence does not rise
	Overlap              int            // two members at work on one key at the same time
	Within               int            // one member at work on a key twice at the same time; not bad of programs that work on their partitions at once
	WrongPartition       int            // deliveries in another partition than the formula's
	Split                int            // records seen in more than one partition
	Ahead                int            // committed offsets beyond a record that was not done at that moment
	Examples             []string
}

func (r Report) String() string {
	return fmt.Sprintf("%d produced, %d deliveries by %d members, %d duplicates, %d outside, %d missing, %d foreign, %d order, %d overlap (%d within), %d wrong partition, %d split, %d ahead\n%s",
		r.Produced, r.Deliveries, len(r.Members), r.Duplicates, r.Outside, r.Missing, r.Foreign, r.Order, r.Overlap, r.Within, r.WrongPartition, r.Split, r.Ahead,
		strings.Join(r.Examples, "\n"))
}

// Bad says whether anything but duplicates is wrong.
func (r Report) Bad() bool {
	return r.Missing+r.Foreign+r.Order+r.Overlap+r.WrongPartition+r.Split+r.Ahead > 0
}

// Check fails the test when the report is bad, and returns it.
func (l *Ledger) Check(t testing.TB, where func(Produced) (partition int32, known bool)) Report {
	t.Helper()
	r := l.Report(where)
	if r.Bad() {
		t.Errorf("ledger: %s", r)
	} else {
		t.Logf("ledger: %s", r)
	}
	return r
}

// Report judges the ledger. where tells in which partition consumers have to see a record (nil: anywhere, but each in one).
func (l *Ledger) Report(where func(Produced) (partition int32, known bool)) Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Report{Produced: len(l.produced), Deliveries: len(l.deliveries), Members: map[string]int{}}
	bad := func(count *int, format string, args ...any) {
		if *count++; *count <= 3 {
			r.Examples = append(r.Examples, fmt.Sprintf(format, args...))
		}
	}
	order := slices.Clone(l.deliveries)
	slices.SortStableFunc(order, func(a, b Delivery) int { return cmp.Or(a.Start.Compare(b.Start), a.End.Compare(b.End)) })
	first := map[int64]Delivery{}
	elsewhere := map[int64]bool{} // done outside of the group
	newest := map[string]int64{}
	busy := map[string]map[string]time.Time{} // key -> member -> end of its last work
	for _, d := range order {
		r.Members[d.Member]++
		p, ok := l.produced[d.N]
		if !ok || d.Offset >= 0 && p.Offset != d.Offset {
			bad(&r.Foreign, "foreign: %+v, produced %+v", d, p)
			continue
		}
		if where != nil {
			if want, known := where(p); known && want != d.Partition {
				bad(&r.WrongPartition, "wrong partition: %+v, produced %+v, wanted partition %d", d, p, want)
			}
		}
		if outside, surely := l.span(d); outside {
			r.Outside++
			elsewhere[d.N] = elsewhere[d.N] || !surely
			continue
		}
		id := p.Topic + "\x00" + string(p.Key)
		if p.Key != nil && !l.anyOrder {
			if busy[id] == nil {
				busy[id] = map[string]time.Time{}
			}
			for member, end := range busy[id] {
				if !end.After(d.Start) {
					continue
				}
				count := &r.Overlap
				if member == d.Member {
					count = &r.Within
				}
				bad(count, "overlap: key %q: %+v began %v before %s ended", p.Key, d, end.Sub(d.Start), member)
			}
			if d.End.After(busy[id][d.Member]) {
				busy[id][d.Member] = d.End
			}
		}
		if f, again := first[d.N]; again {
			r.Duplicates++
			if f.Partition != d.Partition {
				bad(&r.Split, "split: %+v and %+v", f, d)
			}
			continue
		}
		first[d.N] = d
		if p.Key != nil && !l.anyOrder {
			if last, ok := newest[id]; ok && last >= p.Seq {
				bad(&r.Order, "order: key %q: sequence %d after %d: %+v", p.Key, p.Seq, last, d)
			} else {
				newest[id] = p.Seq
			}
		}
	}
	for n, p := range l.produced {
		if _, ok := first[n]; !ok && !elsewhere[n] && r.Missing >= 3 {
			r.Missing++
		} else if !ok && !elsewhere[n] {
			bad(&r.Missing, "missing: %+v, all its deliveries: %+v", p, l.of(n))
		}
	}
	l.ahead(&r, bad)
	return r
}

// of returns the deliveries of a record.
func (l *Ledger) of(n int64) (all []Delivery) {
	for _, d := range l.deliveries {
		if d.N == n {
			all = append(all, d)
		}
	}
	return all
}

// ahead checks each committed offset that was seen against the times at which the records below it were done.
func (l *Ledger) ahead(r *Report, bad func(*int, string, ...any)) {
	type source struct {
		topic     string
		partition int32
	}
	ended := map[int64]time.Time{}
	for _, d := range l.deliveries {
		if _, surely := l.span(d); surely {
			continue
		}
		if end, ok := ended[d.N]; !ok || d.End.Before(end) {
			ended[d.N] = d.End
		}
	}
	records := map[source][]Produced{}
	for _, p := range l.produced {
		s := source{p.Topic, p.Partition}
		records[s] = append(records[s], p)
	}
	latest := map[source][]int64{} // for each record: when it and all before it were done
	for s, list := range records {
		slices.SortFunc(list, func(a, b Produced) int { return cmp.Compare(a.Offset, b.Offset) })
		until := int64(math.MinInt64)
		for _, p := range list {
			end, ok := ended[p.N]
			if !ok {
				until = math.MaxInt64
			} else {
				until = max(until, end.UnixNano())
			}
			latest[s] = append(latest[s], until)
		}
	}
	for _, c := range l.commits {
		s := source{c.topic, c.partition}
		below := sort.Search(len(records[s]), func(i int) bool { return records[s][i].Offset >= c.offset })
		if below > 0 && latest[s][below-1] > c.at.UnixNano() {
			bad(&r.Ahead, "ahead: %s/%d committed %d while a record below was not done", c.topic, c.partition, c.offset)
		}
	}
}

// Ends returns the offset after the last acknowledged record of each partition of a source.
func (l *Ledger) Ends(topic string) map[int32]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := map[int32]int64{}
	for _, p := range l.produced {
		if p.Topic == topic {
			ends[p.Partition] = max(ends[p.Partition], p.Offset+1)
		}
	}
	return ends
}
