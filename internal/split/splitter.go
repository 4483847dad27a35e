package split

// Splitter splits batches. It reuses its buffers and decoders from call to call and is used by one goroutine
// at a time; blocks it returned are independent of it.
type Splitter struct {
	cfg Config
}

// New returns a Splitter; zero fields of cfg get their defaults.
func New(cfg Config) *Splitter { return &Splitter{cfg: cfg} }

// Split splits the record batches of a Fetch answer. raw holds them as the broker sent them; a partial batch at its
// end is ignored. from is the offset that was fetched. Records below it that share its batch are included.
//
// With readCommitted the records of aborted transactions are left out; aborted is the answer's own list. Control
// batches give no piece in either case.
//
// An error is an *Error or says that slicing is invalid. Batches before a damaged one still give a block; the error
// comes when the damaged one is the first.
func (s *Splitter) Split(raw []byte, from int64, slicing Slicing, readCommitted bool, aborted []Aborted) (*Block, error) {
	panic("not yet")
}
