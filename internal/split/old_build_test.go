package split

import (
	"encoding/binary"
	"hash/crc32"
)

// oldMessage writes a message of magic 0 or 1.
func oldMessage(magic byte, attributes byte, offset, timestamp int64, key, value []byte) []byte {
	be := binary.BigEndian
	body := []byte{magic, attributes}
	if magic == 1 {
		body = be.AppendUint64(body, uint64(timestamp))
	}
	for _, b := range [][]byte{key, value} {
		if b == nil {
			body = be.AppendUint32(body, 0xffffffff)
			continue
		}
		body = append(be.AppendUint32(body, uint32(len(b))), b...)
	}
	out := be.AppendUint64(nil, uint64(offset))
	out = be.AppendUint32(out, uint32(4+len(body)))
	out = be.AppendUint32(out, crc32.ChecksumIEEE(body))
	return append(out, body...)
}

// oldSet writes records in an old format: one message each, or all in one compressed message.
func oldSet(magic byte, codec Codec, records []testRecord) []byte {
	if codec == None {
		var out []byte
		for _, r := range records {
			out = append(out, oldMessage(magic, 0, r.Offset, r.Timestamp, r.Key, r.Value)...)
		}
		return out
	}
	var inner []byte
	var newest int64
	for _, r := range records {
		offset := r.Offset
		if magic == 1 {
			offset -= records[0].Offset
		}
		newest = max(newest, r.Timestamp)
		inner = append(inner, oldMessage(magic, 0, offset, r.Timestamp, r.Key, r.Value)...)
	}
	packed := pack(codec, inner)
	if codec == LZ4 && magic == 0 {
		packed[6] ^= 0x55 // the header checksum that old clients computed wrongly
	}
	return oldMessage(magic, byte(codec), records[len(records)-1].Offset, newest, nil, packed)
}
