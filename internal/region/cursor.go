package region

import (
	"math"
	"slices"
)

// never is behind all offsets that can be done.
const never = math.MaxInt64

// cursor goes forward through a list of which both First and Last rise.
type cursor struct {
	list *list
	p    place // of the first element that begins behind the last offset asked for
}

// after is the offset behind the element that offset lies in, or offset itself.
func (c *cursor) after(offset int64) int64 {
	for steps := 0; c.list.in(c.p) && c.list.at(c.p).First <= offset; steps++ {
		if steps == 8 { // far away
			c.p = c.list.behind(offset)
			break
		}
		c.p = c.list.next(c.p)
	}
	if p, ok := c.list.prev(c.p); ok {
		return max(offset, c.list.at(p).Last+1)
	}
	return offset
}

// climber goes up through the lanes of one strip, all together. Offsets asked for never fall between two resets.
type climber []cursor

func (c *climber) reset(lanes []*lane, from int64) {
	*c = (*c)[:0]
	for _, l := range lanes {
		*c = append(*c, cursor{&l.list, l.behind(from)})
	}
	if len(*c) > 4 { // then those that go on from each other are mostly in order, and after goes round once
		slices.SortFunc(*c, func(a, b cursor) int { return a.list.at(place{}).compare(*b.list.at(place{})) })
	}
}

// after is the first offset from offset on that is in no lane. From bound on it does not look any further.
func (c climber) after(offset, bound int64) int64 {
	for {
		start := offset
		for i := range c {
			offset = c[i].after(offset)
		}
		if offset == start || offset >= bound {
			return offset
		}
	}
}

// begin is the first offset from offset on that is in some lane; 2^63-1 if there is none.
func (c climber) begin(offset int64) int64 {
	begin := int64(never)
	for i := range c {
		if c[i].after(offset) > offset {
			return offset
		}
		if c[i].list.in(c[i].p) {
			begin = min(begin, c[i].list.at(c[i].p).First)
		}
	}
	return begin
}

// over goes on over what is in a lane and what is known to be empty, in turns.
func (c climber) over(offset, bound int64, empty func(int64) int64) int64 {
	for {
		start := offset
		if offset = c.after(offset, bound); empty != nil && offset < bound {
			offset = max(offset, empty(offset))
		}
		if offset == start || offset >= bound || empty == nil {
			return offset
		}
	}
}
