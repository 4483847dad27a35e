package executor

import (
	"fmt"
	"testing"
)

// What a record costs in the machine, with nothing to do: 2,000 records a fetch, 64 a Take.
func BenchmarkRecord(b *testing.B) {
	for _, c := range []struct {
		name  string
		order Order
		keys  int
		batch int
	}{{"1000 keys", ByKey, 1000, 64}, {"unique keys", ByKey, 1 << 20, 64}, {"one at a time", ByKey, 1000, 1}, {"one key", ByKey, 1, 64}, {"unordered", Unordered, 1000, 64}} {
		b.Run(c.name, func(b *testing.B) {
			m, err := New(Config{Handlers: 16, Order: c.order, MaxShed: 1000, Lease: Second}, (*rec).meta, nil)
			if err != nil {
				b.Fatal(err)
			}
			tp := TP{"orders", 0}
			if err := m.Assign(tp, Assignment{Base: 1}, 1); err != nil {
				b.Fatal(err)
			}
			keys := make([][]byte, c.keys)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "customer-%d", i)
			}
			records := make([]*rec, 2000)
			for i := range records {
				records[i] = new(rec)
			}
			tasks := make([]*Task[*rec], 0, c.batch)
			next, now := int64(0), int64(1)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += len(records) {
				for _, r := range records {
					r.offset, r.key = next, keys[int(uint64(next)*2654435761%uint64(c.keys))]
					next++
				}
				now += 4 * Millisecond
				m.Fetched(tp, Fetch[*rec]{From: records[0].offset, Records: records}, now)
				for {
					tasks = m.Take(tasks[:0], c.batch, now)
					if len(tasks) == 0 {
						break
					}
					for _, t := range tasks {
						m.Finish(t, Result{}, now)
					}
				}
				m.Tick(now)
				for _, commit := range m.Output().Commits {
					m.CommitDone(commit.ID, true, now)
				}
			}
		})
	}
}
