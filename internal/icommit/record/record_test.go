package record

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/keyrange"
	"pgregory.net/rapid"
)

func encode(r *Record) (key, value []byte) {
	if !r.Delete {
		value = AppendValue(nil, r)
	}
	return AppendKey(nil, r), value
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Topics on disk hold these bytes: they never change.
func TestGoldenBytes(t *testing.T) {
	r := Record{
		Group: "workers", Topic: "orders", Partition: 300, Base: 5,
		Fact:    Fact{Keys: keyrange.Range{First: 0x40000000, Last: 0x7fffffff}, First: 45, Last: 174},
		TopicID: [16]byte{0: 0xa1, 15: 0xb2}, Era: 129,
	}
	key := unhex(t, "0000 07 776f726b657273 06 6f7264657273 ac02 05 8101 40000000 7fffffff 2d 8101")
	value := unhex(t, "0000 a1000000000000000000000000 0000b2")
	k, v := encode(&r)
	if !bytes.Equal(k, key) || !bytes.Equal(v, value) {
		t.Errorf("encoded %x %x", k, v)
	}
	var d Decoder
	if got, err := d.Decode(key, value); err != nil || got != r {
		t.Errorf("decoded %+v, %v", got, err)
	}
	r.TopicID, r.Delete = [16]byte{}, true
	if got, err := d.Decode(key, nil); err != nil || got != r {
		t.Errorf("decoded %+v, %v", got, err)
	}
}

func records() *rapid.Generator[Record] {
	return rapid.Custom(func(t *rapid.T) (r Record) {
		r.Group = rapid.String().Draw(t, "group")
		r.Topic = rapid.String().Draw(t, "topic")
		r.Partition = rapid.Int32Min(0).Draw(t, "partition")
		a, b := rapid.Uint32().Draw(t, "key position"), rapid.Uint32().Draw(t, "key position")
		r.Fact.Keys = keyrange.Range{First: min(a, b), Last: max(a, b)}
		if r.Base = rapid.Int32Min(0).Draw(t, "base"); r.Base == 0 {
			r.Fact.Keys = keyrange.Full
		}
		r.Fact.First = rapid.Int64Range(0, math.MaxInt64-1).Draw(t, "first")
		r.Fact.Last = rapid.Int64Range(r.Fact.First, math.MaxInt64-1).Draw(t, "last")
		r.Era = rapid.Int64Min(0).Draw(t, "era")
		if r.Delete = rapid.Bool().Draw(t, "delete"); !r.Delete {
			copy(r.TopicID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "topic id"))
		}
		return r
	})
}

func TestRoundTrip(t *testing.T) {
	var d Decoder
	rapid.Check(t, func(t *rapid.T) {
		r := records().Draw(t, "record")
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		key, value := encode(&r)
		got, err := d.Decode(key, value)
		if err != nil || got != r {
			t.Fatalf("%+v became %+v, %v", r, got, err)
		}
	})
}

// Compaction works on keys: equal facts have equal keys whatever their value is, and other facts have others.
func TestKeysTellFactsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := records().Draw(t, "a"), records().Draw(t, "b")
		if rapid.Bool().Draw(t, "same place") {
			b.Group, b.Topic, b.Partition, b.Base, b.Era = a.Group, a.Topic, a.Partition, a.Base, a.Era
		}
		same := a.Group == b.Group && a.Topic == b.Topic && a.Partition == b.Partition && a.Base == b.Base && a.Era == b.Era && a.Fact == b.Fact
		if bytes.Equal(AppendKey(nil, &a), AppendKey(nil, &b)) != same {
			t.Fatalf("%+v %+v", a, b)
		}
		b = a
		b.TopicID[3] = 7
		if !bytes.Equal(AppendKey(nil, &a), AppendKey(nil, &b)) {
			t.Fatalf("%+v %+v", a, b)
		}
	})
}

func TestRecordsAreSmall(t *testing.T) {
	r := Record{Group: "invoice-workers", Topic: "customer.orders", Partition: 11, Fact: Fact{Keys: keyrange.Full, First: 8_000_000_000, Last: 8_000_000_400}, Era: 3}
	key, value := encode(&r)
	if n := len(key) + len(value); n > 75 {
		t.Errorf("%d bytes", n)
	}
}

func TestDecodeRefuses(t *testing.T) {
	const key = "0000 01 67 01 74 00 04 00 00000000 ffffffff 05 00"
	const value = "0000 00000000000000000000000000000000"
	for name, c := range map[string]struct {
		key, value string
		err        error
	}{
		"nothing wrong":             {key, value, nil},
		"no key":                    {"", value, ErrForeign},
		"one byte":                  {"00", value, ErrForeign},
		"text":                      {"6f7264657273", value, ErrForeign},
		"negative key version":      {"ffff 01 67", value, ErrForeign},
		"later key version":         {"0001 01 67", value, ErrNewer},
		"last later key version":    {"0063", value, ErrNewer},
		"version of nobody":         {"0064", value, ErrForeign},
		"key cut off":               {"0000 01 67 01 74 00 04 00 00000000 ffffffff 05", value, ErrDamaged},
		"key with more behind":      {key + "00", value, ErrDamaged},
		"name longer than the key":  {"0000 ffffffff07 67", value, ErrDamaged},
		"uvarint with spare byte":   {"0000 8100 67 01 74 00 04 00 00000000 ffffffff 05 00", value, ErrDamaged},
		"partition too large":       {"0000 01 67 01 74 8080808008 04 00 00000000 ffffffff 05 00", value, ErrDamaged},
		"base too large":            {"0000 01 67 01 74 00 8080808008 00 00000000 ffffffff 05 00", value, ErrDamaged},
		"no base":                   {"0000 01 67 01 74 00 00 00 00000000 7fffffff 05 00", value, ErrDamaged},
		"no base, whole axis":       {"0000 01 67 01 74 00 00 00 00000000 ffffffff 05 00", value, nil},
		"key range backwards":       {"0000 01 67 01 74 00 04 00 00000002 00000001 05 00", value, ErrDamaged},
		"first offset out of range": {"0000 01 67 01 74 00 04 00 00000000 ffffffff ffffffffffffffff7f 00", value, ErrDamaged},
		"last offset out of range":  {"0000 01 67 01 74 00 04 00 00000000 ffffffff feffffffffffffff7f 01", value, ErrDamaged},
		"empty value":               {key, "-", ErrDamaged},
		"value cut off":             {key, "0000 0000000000000000000000000000", ErrDamaged},
		"value with more behind":    {key, value + "00", ErrDamaged},
		"era too large":             {"0000 01 67 01 74 00 04 80808080808080808001 00000000 ffffffff 05 00", value, ErrDamaged},
		"later value version":       {key, "0001", ErrNewer},
		"value version of nobody":   {key, "fff0", ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			v := unhex(t, strings.TrimPrefix(c.value, "-"))
			var d Decoder
			if _, err := d.Decode(unhex(t, c.key), v); !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	good := Record{Fact: Fact{Keys: keyrange.Full, Last: 1}}
	for name, change := range map[string]func(*Record){
		"partition":     func(r *Record) { r.Partition = -1 },
		"key range":     func(r *Record) { r.Fact.Keys = keyrange.Range{First: 2, Last: 1} },
		"first":         func(r *Record) { r.Fact.First = -1 },
		"backwards":     func(r *Record) { r.Fact.First = 2 },
		"no next":       func(r *Record) { r.Fact.Last = math.MaxInt64 },
		"era":           func(r *Record) { r.Era = -1 },
		"nothing wrong": func(*Record) {},
	} {
		r := good
		change(&r)
		if err := r.Check(); (err == nil) != (name == "nothing wrong") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecodingKnownNamesDoesNotAllocate(t *testing.T) {
	r := Record{Group: "workers", Topic: "orders", Fact: Fact{Keys: keyrange.Full, First: 45, Last: 47}}
	key, value := encode(&r)
	var d Decoder
	if n := testing.AllocsPerRun(100, func() { _, _ = d.Decode(key, value) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Names come from whoever may write to the topic.
func TestNamesAreBounded(t *testing.T) {
	var d Decoder
	for p := range int32(5 * maxNames) {
		r := Record{Group: strings.Repeat("g", int(p%2000)), Topic: string('a' + p%50), Fact: Fact{Keys: keyrange.Full}}
		key, value := encode(&r)
		if got, err := d.Decode(key, value); err != nil || got != r {
			t.Fatalf("%+v, %v", got, err)
		}
		if len(d.names) > maxNames {
			t.Fatalf("%d names are kept", len(d.names))
		}
	}
}

func FuzzDecode(f *testing.F) {
	r := Record{Group: "workers", Topic: "orders", Partition: 3, Fact: Fact{Keys: keyrange.Full, First: 45, Last: 174}, Era: 129}
	key, value := encode(&r)
	f.Add(key, value)
	f.Add([]byte("orders"), []byte(nil))
	f.Add([]byte{0, 1, 2}, value)
	f.Fuzz(func(t *testing.T, key, value []byte) {
		var d Decoder
		r, err := d.Decode(key, value)
		if err != nil {
			if r != (Record{}) {
				t.Fatalf("%+v with %v", r, err)
			}
			return
		}
		if err := r.Check(); err != nil {
			t.Fatalf("decoded %+v: %v", r, err)
		}
		if k, v := encode(&r); !bytes.Equal(k, key) || !bytes.Equal(v, value) || (v == nil) != (value == nil) {
			t.Fatalf("%x %x became %x %x", key, value, k, v)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	r := Record{Group: "invoice-workers", Topic: "customer.orders", Fact: Fact{Keys: keyrange.Full, First: 8_000_000_000, Last: 8_000_000_400}, Era: 3}
	var buf []byte
	for b.Loop() {
		buf = AppendValue(AppendKey(buf[:0], &r), &r)
	}
}

func BenchmarkDecode(b *testing.B) {
	r := Record{Group: "invoice-workers", Topic: "customer.orders", Fact: Fact{Keys: keyrange.Full, First: 8_000_000_000, Last: 8_000_000_400}, Era: 3}
	key, value := encode(&r)
	var d Decoder
	for b.Loop() {
		_, _ = d.Decode(key, value)
	}
}
