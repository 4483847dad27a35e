package slicecache

import (
	"testing"

	"pgregory.net/rapid"
)

// TestGapsAgreeWithASet compares gapSet with a set of offsets. While few gaps are added nothing may be forgotten.
func TestGapsAgreeWithASet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var g gapSet
		empty := map[int64]bool{}
		for range rapid.IntRange(0, 40).Draw(rt, "n") {
			from := rapid.Int64Range(0, 60).Draw(rt, "from")
			to := from + rapid.Int64Range(0, 6).Draw(rt, "len")
			g.add(from, to, maxGaps)
			for o := from; o < to; o++ {
				empty[o] = true
			}
			if rapid.IntRange(0, 9).Draw(rt, "cut") == 0 {
				end := rapid.Int64Range(0, 60).Draw(rt, "end")
				g.cut(end)
				for o := range empty {
					if o >= end {
						delete(empty, o)
					}
				}
			}
			for i := 1; i < len(g); i++ {
				if g[i-1].to >= g[i].from || g[i].from >= g[i].to {
					rt.Fatalf("not disjoint: %v", g)
				}
			}
		}
		for pos := range int64(70) {
			up, down := pos, pos
			for empty[up] {
				up++
			}
			for empty[down-1] {
				down--
			}
			if got := g.jump(pos); got != up {
				rt.Fatalf("jump(%d) = %d, want %d in %v", pos, got, up, g)
			}
			if got := g.back(pos); got != down {
				rt.Fatalf("back(%d) = %d, want %d in %v", pos, got, down, g)
			}
		}
	})
}

func TestGapsAreBoundedAndKeepTheHighest(t *testing.T) {
	var g gapSet
	for o := int64(0); o < 10000; o += 10 {
		g.add(o, o+1+o%7, maxGaps)
	}
	if len(g) > maxGaps {
		t.Errorf("%d gaps", len(g))
	}
	for i := int64(1); i <= keepGaps; i++ {
		if o := 10000 - 10*i; g.jump(o) == o {
			t.Errorf("the gap at %d is forgotten", o)
		}
	}
}
