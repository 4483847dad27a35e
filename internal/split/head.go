package split

// head is what a record of magic 2 begins with: length varint, attributes, timestamp delta varlong, offset delta varint, key
// length varint, key. Positions count from the start of the records and are not checked against anything yet.
type head struct {
	end    int   // of the record
	key    int   // of the key's first byte
	keyLen int32 // negative: null
	delta  int32 // of the offset
}

// parseHead parses the head of the record at recs[p:]. It is false if that does not parse.
func parseHead(recs []byte, p int) (h head, ok bool) {
	length, p := varint(recs, p)
	if p < 0 || length < 0 {
		return h, false
	}
	h.end = p + int(length)
	if _, p = varlong(recs, p+1); p < 0 {
		return h, false
	}
	if h.delta, p = varint(recs, p); p < 0 {
		return h, false
	}
	if h.keyLen, p = varint(recs, p); p < 0 {
		return h, false
	}
	h.key = p
	return h, true
}
