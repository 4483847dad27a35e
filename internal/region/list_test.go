package region

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A list does what a sorted slice does. Runs are long enough for many chunks, which split and join.
func TestListIsASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l list
		var dumb []OffsetRange
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			first := rapid.Int64Range(0, 4000).Draw(t, "first")
			step := rapid.SampledFrom([]int64{-3, -1, 1, 2, 7}).Draw(t, "step")
			n := rapid.IntRange(1, 3000).Draw(t, "n")
			remove := rapid.Bool().Draw(t, "remove")
			for i := range int64(n) {
				r := OffsetRange{first + step*i, first + step*i + i%2}
				at, has := slices.BinarySearchFunc(dumb, r, OffsetRange.compare)
				if l.has(r) != has {
					t.Fatalf("has %v: not %v", r, has)
				}
				switch p := l.seek(r); {
				case has && remove:
					dumb = slices.Delete(dumb, at, at+1)
					if p = l.remove(p); at < len(dumb) != l.in(p) || l.in(p) && *l.at(p) != dumb[at] {
						t.Fatalf("the place behind %v is wrong", r)
					}
				case !has && !remove:
					dumb = slices.Insert(dumb, at, r)
					l.insert(p, r)
				}
			}
			checkList(t, &l, dumb)
		}
	})
}

func checkList(t *rapid.T, l *list, want []OffsetRange) {
	if l.n != len(want) {
		t.Fatalf("%d elements, want %d", l.n, len(want))
	}
	var got []OffsetRange
	for i, c := range l.chunks {
		if len(c) == 0 || len(c) > chunkSize {
			t.Fatalf("chunk %d has %d elements", i, len(c))
		}
		got = append(got, c...)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s, want %s", short(got), short(want))
	}
	p := place{}
	for i := range want {
		if !l.in(p) || *l.at(p) != want[i] {
			t.Fatalf("next: element %d", i)
		}
		if q := l.next(p); i+1 < len(want) {
			if back, ok := l.prev(q); !ok || back != p {
				t.Fatalf("prev: element %d", i)
			}
		}
		p = l.next(p)
	}
	if l.in(p) {
		t.Fatal("in: an element too many")
	}
}

// What was long stays small in memory when it gets short, wherever elements are removed.
func TestListShrinks(t *testing.T) {
	var l list
	for i := range int64(100_000) {
		l.insert(l.seek(OffsetRange{i, i}), OffsetRange{i, i})
	}
	for i := range int64(100_000) {
		if i%100 != 0 {
			l.remove(l.seek(OffsetRange{i, i}))
		}
	}
	if l.n != 1000 || l.size() > 64*1000 {
		t.Errorf("%d elements take %d bytes", l.n, l.size())
	}
}
