package split

// Trim returns p without its records below from, and false when none is left. p itself does not change.
func Trim(p Piece, from int64) (Piece, bool) { panic("not yet") }

// FirstAtOrAfter finds the first record of p with an offset >= from and a timestamp (ms) >= timestamp.
// With math.MinInt64 as timestamp it finds the first record at or after from.
func FirstAtOrAfter(p Piece, from, timestamp int64) (offset, ts int64, ok bool) { panic("not yet") }
