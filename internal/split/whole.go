package split

// Whole is a record batch as it was produced.
type Whole struct {
	First, Last int64  // the offsets that it covers
	Data        []byte // the batch, not decompressed; nil where none of its records is for consumers
}

// Batches takes the record batches of a Fetch answer apart without decoding their records: raw holds them as the broker sent them; a partial batch at its
// end is left out. Control batches have no Data, and with readCommitted neither have those of aborted transactions; aborted is the answer's own
// list. ok is false where a batch is of a format before magic 2. A damaged batch ends the list; it is an error where it is the first.
func Batches(raw []byte, readCommitted bool, aborted []Aborted) (batches []Whole, ok bool, err error) {
	var t transactions
	t.begin(readCommitted, aborted)
	next := int64(-1)
	for {
		size, complete := entrySize(raw)
		if !complete {
			return batches, true, nil
		}
		var h header
		if size < entryHead+5 {
			err = fail(next, ErrCorrupt, "batch of %d bytes", size)
		} else if raw[atMagic] != 2 {
			return nil, false, nil
		} else if h, err = parseHeader(raw[:size]); err == nil && h.base < next {
			err = fail(h.base, ErrCorrupt, "offsets go back: %d was next", next)
		}
		if err != nil {
			if len(batches) > 0 {
				err = nil
			}
			return batches, true, err
		}
		b := Whole{First: h.base, Last: h.last()}
		if !t.drop(&h, raw[headerSize:size]) && h.count > 0 {
			b.Data = raw[:size:size]
		}
		batches = append(batches, b)
		next = h.last() + 1
		raw = raw[size:]
	}
}
