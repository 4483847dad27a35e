package inspect

import (
	"fmt"
	"testing"

	"github.com/tandem-kafka/tandem/client/internal/done"
	"github.com/tandem-kafka/tandem/keyrange"
)

func TestHolesAreWhatIsNotDoneForAllKeys(t *testing.T) {
	low, high := keyrange.OfSlice(0, 2), keyrange.OfSlice(1, 2)
	of := func(keys keyrange.Range, ranges []OffsetRange) done.Committed {
		return done.Committed{Keys: keys, Ranges: ranges}
	}
	for _, c := range []struct {
		name      string
		from, end int64
		above     []done.Committed
		want      string
	}{
		{"nothing is done above", 10, 20, nil, "[[10-19]]"},
		{"all is done", 20, 20, nil, "[]"},
		{"behind the end", 21, 20, nil, "[]"},
		{"one key range has nothing", 10, 20, []done.Committed{of(low, []OffsetRange{{First: 10, Last: 19}})}, "[[10-19]]"},
		{"both have holes", 10, 20, []done.Committed{of(low, []OffsetRange{{First: 10, Last: 11}, {First: 13, Last: 30}}), of(high, []OffsetRange{{First: 10, Last: 14}, {First: 16, Last: 17}})}, "[[12-12] [15-15] [18-19]]"},
		{"holes that touch and overlap", 10, 20, []done.Committed{of(low, []OffsetRange{{First: 14, Last: 19}}), of(high, []OffsetRange{{First: 10, Last: 11}, {First: 17, Last: 19}})}, "[[10-16]]"},
		{"the answer is in pieces", 10, 20, []done.Committed{of(keyrange.Full, []OffsetRange{{First: 11, Last: 12}}), of(keyrange.Full, []OffsetRange{{First: 15, Last: 19}})}, "[[10-10] [13-14]]"},
	} {
		if got := fmt.Sprint(holesIn(c.from, c.end, c.above)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
