package split

// varint reads a zigzag varint of at most 5 bytes at b[p:]; next is -1 when there is none.
func varint(b []byte, p int) (v int32, next int) {
	if p < len(b) && b[p] < 0x80 {
		return int32(b[p]>>1) ^ -int32(b[p]&1), p + 1
	}
	var u uint32
	for shift := uint(0); shift < 35; shift += 7 {
		if p >= len(b) {
			return 0, -1
		}
		c := b[p]
		p++
		u |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), p
		}
	}
	return 0, -1
}

// varlong reads a zigzag varint of at most 10 bytes at b[p:]; next is -1 when there is none.
func varlong(b []byte, p int) (v int64, next int) {
	var u uint64
	for shift := uint(0); shift < 70; shift += 7 {
		if p >= len(b) {
			return 0, -1
		}
		c := b[p]
		p++
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), p
		}
	}
	return 0, -1
}

func appendVarlong(b []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		b = append(b, byte(u)|0x80)
		u >>= 7
	}
	return append(b, byte(u))
}

func varlongSize(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}
