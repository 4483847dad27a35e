package record

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/tandem-kafka/tandem/internal/acquire"
	"pgregory.net/rapid"
)

func encodeHandout(h *Handout) (key, value []byte) {
	if !h.Entry.Delete {
		value = AppendHandoutValue(nil, h)
	}
	return AppendHandoutKey(nil, h), value
}

// Topics on disk hold these bytes: they never change.
func TestGoldenBytesOfHandouts(t *testing.T) {
	acquisition := Handout{
		Group: "workers", Topic: "orders", Partition: 300, TopicID: [16]byte{0: 0xa1, 15: 0xb2},
		Entry: acquire.Entry{Era: 129, ID: 0x0102030405060708, First: 45, Last: 174, Member: "m-1", Timeout: 30000, Attempt: 2, Over: []acquire.Over{{Member: "m-0", Position: 300}}},
	}
	session := Handout{Group: "workers", Topic: "orders", Partition: 300, TopicID: acquisition.TopicID, Entry: acquire.Entry{Kind: acquire.Session, Era: 129, ID: 5, Member: "m-1", Timeout: 30000}}
	for _, c := range []struct {
		h          Handout
		key, value string
	}{
		{acquisition, "0001 07 776f726b657273 06 6f7264657273 ac02 8101 00 0102030405060708 2d 8101", "0000 a1000000000000000000000000 0000b2 03 6d2d31 b0ea01 02 01 03 6d2d30 ac02"},
		{session, "0001 07 776f726b657273 06 6f7264657273 ac02 8101 01 0000000000000005", "0000 a1000000000000000000000000 0000b2 03 6d2d31 b0ea01"},
	} {
		key, value := unhex(t, c.key), unhex(t, c.value)
		if k, v := encodeHandout(&c.h); !bytes.Equal(k, key) || !bytes.Equal(v, value) {
			t.Errorf("encoded %x %x", k, v)
		}
		var d Decoder
		if got, err := d.DecodeHandout(key, value); err != nil || !reflect.DeepEqual(got, c.h) {
			t.Errorf("decoded %+v, %v", got, err)
		}
		e := c.h.Entry
		c.h.TopicID, c.h.Entry = [16]byte{}, acquire.Entry{Kind: e.Kind, Era: e.Era, ID: e.ID, First: e.First, Last: e.Last, Delete: true}
		if got, err := d.DecodeHandout(key, nil); err != nil || !reflect.DeepEqual(got, c.h) {
			t.Errorf("decoded %+v, %v", got, err)
		}
		if _, err := d.Decode(key, value); !errors.Is(err, ErrNewer) {
			t.Errorf("a release that knows facts only: %v", err)
		}
	}
}

func handouts() *rapid.Generator[Handout] {
	return rapid.Custom(func(t *rapid.T) (h Handout) {
		h.Group, h.Topic, h.Partition = rapid.String().Draw(t, "group"), rapid.String().Draw(t, "topic"), rapid.Int32Min(0).Draw(t, "partition")
		e := &h.Entry
		e.Kind, e.Era, e.ID = acquire.Kind(rapid.IntRange(0, 1).Draw(t, "kind")), rapid.Int64Min(0).Draw(t, "era"), rapid.Uint64().Draw(t, "id")
		if e.Kind == acquire.Acquisition {
			e.First = rapid.Int64Range(0, acquire.MaxOffset).Draw(t, "first")
			e.Last = rapid.Int64Range(e.First, acquire.MaxOffset).Draw(t, "last")
		}
		if e.Delete = rapid.Bool().Draw(t, "delete"); e.Delete {
			return h
		}
		copy(h.TopicID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "topic id"))
		e.Member, e.Timeout = rapid.StringN(1, -1, -1).Draw(t, "member"), rapid.Int32Min(1).Draw(t, "timeout")
		if e.Kind == acquire.Acquisition {
			e.Attempt = rapid.Int32Min(0).Draw(t, "attempt")
			for range rapid.IntRange(0, 3).Draw(t, "over") {
				e.Over = append(e.Over, acquire.Over{Member: rapid.StringN(1, -1, -1).Draw(t, "member"), Position: rapid.Int64Range(0, math.MaxInt64).Draw(t, "position")})
			}
		}
		return h
	})
}

func TestHandoutsRoundTrip(t *testing.T) {
	var d Decoder
	rapid.Check(t, func(t *rapid.T) {
		h := handouts().Draw(t, "handout")
		if err := h.Check(); err != nil {
			t.Fatal(err)
		}
		key, value := encodeHandout(&h)
		if got, err := d.DecodeHandout(key, value); err != nil || !reflect.DeepEqual(got, h) || !IsHandout(key) {
			t.Fatalf("%+v became %+v, %v", h, got, err)
		}
	})
}

// It never panics, and what it accepts is written the same.
func FuzzDecodeHandout(f *testing.F) {
	h := Handout{Group: "g", Topic: "t", Entry: acquire.Entry{ID: 7, First: 3, Last: 9, Member: "m", Timeout: 1, Attempt: 1, Over: []acquire.Over{{Member: "o", Position: 2}}}}
	key, value := encodeHandout(&h)
	f.Add(key, value)
	h.Entry = acquire.Entry{Kind: acquire.Session, ID: 7, Member: "m", Timeout: 1}
	key, value = encodeHandout(&h)
	f.Add(key, value)
	f.Fuzz(func(t *testing.T, key, value []byte) {
		var d Decoder
		if !IsHandout(key) {
			return
		}
		h, err := d.DecodeHandout(key, value)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewer) {
				t.Fatal(err)
			}
			return
		}
		k, v := encodeHandout(&h)
		if !bytes.Equal(k, key) || !bytes.Equal(v, value) {
			t.Fatalf("%x %x became %x %x", key, value, k, v)
		}
	})
}
