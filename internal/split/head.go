package split

// head is what a record of magic 2 begins with: length varint, attributes, timestamp delta varlong, offset delta varint, key
// length varint, key. Positions count from the start of the records and are not checked against anything yet.
type head struct {
	end    int   // of the record
	key    int   // of the key's first byte
	keyLen int32 // negative: null
	delta  int32 // of the offset
}

// quickHead parses the usual record: lengths of one or two bytes, a timestamp delta of up to three, a key length of one.
// It is false for unusual and for damaged records, and close to the end of recs; parseHead decides these. Straight code on a
// fixed window, without calls and bounds checks, takes half the time.
func quickHead(recs []byte, p int) (h head, ok bool) {
	if len(recs)-p < 16 {
		return h, false
	}
	b := (*[16]byte)(recs[p:])
	length := uint(b[0])
	q := uint(1)
	if length >= 0x80 {
		length = length&0x7f | uint(b[1])<<7
		if length >= 1<<14 {
			return h, false
		}
		q = 2
	}
	if length&1 != 0 {
		return h, false
	}
	h.end = p + int(q+length>>1)
	q++
	if b[q] >= 0x80 {
		q++
		if b[q&15] >= 0x80 {
			q++
			if b[q&15] >= 0x80 {
				return h, false
			}
		}
	}
	q++
	delta := uint32(b[q&15])
	if delta >= 0x80 {
		q++
		delta = delta&0x7f | uint32(b[q&15])<<7
		if delta >= 1<<14 {
			return h, false
		}
	}
	q++
	key := b[q&15]
	h.key = p + int(q) + 1
	h.keyLen = int32(key>>1) ^ -int32(key&1)
	h.delta = int32(delta>>1) ^ -int32(delta&1)
	return h, key < 0x80
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
