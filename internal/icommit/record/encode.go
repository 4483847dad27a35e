package record

import "encoding/binary"

// The versions that this release writes and reads.
const (
	keyVersion   = 0
	valueVersion = 0
	lastReserved = 99 // versions above belong to nobody
)

// AppendKey appends the key of a record that passes Check.
func AppendKey(dst []byte, r *Record) []byte {
	dst = binary.BigEndian.AppendUint16(dst, keyVersion)
	dst = appendName(dst, r.Group)
	dst = appendName(dst, r.Topic)
	dst = binary.AppendUvarint(dst, uint64(r.Partition))
	dst = binary.AppendUvarint(dst, uint64(r.Base))
	dst = binary.AppendUvarint(dst, uint64(r.Era))
	dst = binary.BigEndian.AppendUint32(dst, r.Fact.Keys.First)
	dst = binary.BigEndian.AppendUint32(dst, r.Fact.Keys.Last)
	dst = binary.AppendUvarint(dst, uint64(r.Fact.First))
	return binary.AppendUvarint(dst, uint64(r.Fact.Last-r.Fact.First))
}

// AppendValue appends the value of a record that passes Check and is no deletion: a deletion's value is null.
func AppendValue(dst []byte, r *Record) []byte {
	dst = binary.BigEndian.AppendUint16(dst, valueVersion)
	return append(dst, r.TopicID[:]...)
}

func appendName(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
