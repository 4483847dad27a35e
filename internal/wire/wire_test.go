package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

func TestHeaderOfEveryRequestParsesBack(t *testing.T) {
	client := "a client"
	for key := range int16(100) {
		limit, ok := MaxVersion(key)
		req := kmsg.RequestForKey(key)
		if !ok || req == nil {
			continue
		}
		for v := int16(0); v <= limit; v++ {
			for _, id := range []*string{nil, &client} {
				req.SetVersion(v)
				frame := AppendRequest(nil, 7, id, req)
				if n := binary.BigEndian.Uint32(frame); int(n) != len(frame)-4 {
					t.Fatalf("%s v%d: size %d of %d bytes", kmsg.NameForKey(key), v, n, len(frame)-4)
				}
				h, err := ParseHeader(frame[4:])
				if err != nil {
					t.Fatalf("%s v%d: %v", kmsg.NameForKey(key), v, err)
				}
				if h.Key != key || h.Version != v || h.CorrelationID != 7 || (h.ClientID == nil) != (id == nil) {
					t.Fatalf("%s v%d: header %+v", kmsg.NameForKey(key), v, h)
				}
				if _, err := DecodeRequest(h, frame[4+h.Body:]); err != nil {
					t.Fatalf("%s v%d: %v", kmsg.NameForKey(key), v, err)
				}
			}
		}
	}
}

func TestResponsesParseBack(t *testing.T) {
	for key := range int16(100) {
		limit, ok := MaxVersion(key)
		resp := kmsg.ResponseForKey(key)
		if !ok || resp == nil {
			continue
		}
		for v := int16(0); v <= limit; v++ {
			resp.SetVersion(v)
			frame := AppendResponse(nil, 9, resp)
			if _, err := DecodeResponse(key, v, frame[4:]); err != nil {
				t.Fatalf("%s v%d: %v", kmsg.NameForKey(key), v, err)
			}
		}
	}
}

func TestCheckSizeNamesWhatItSees(t *testing.T) {
	for _, c := range []struct {
		first string
		want  error
	}{
		{"\x16\x03\x01\x02", ErrTLSHello},
		{"GET ", ErrHTTP},
		{"\xff\xff\xff\xff", ErrFrameSize},
		{"\x00\x00\x00\x03", ErrFrameSize},
		{"\x00\x00\x01\x00", nil},
	} {
		if err := CheckSize(binary.BigEndian.Uint32([]byte(c.first)), 100<<20); !errors.Is(err, c.want) {
			t.Errorf("%q: %v, want %v", c.first, err, c.want)
		}
	}
}

// A size alone must not make us allocate: memory follows what arrives.
func TestReadContentAllocatesOnlyWhatArrives(t *testing.T) {
	got, err := ReadContent(bufio.NewReader(bytes.NewReader(make([]byte, 100))), 90<<20)
	if err == nil {
		t.Fatal("a frame that is cut off was accepted")
	}
	if cap(got) > 2<<20 {
		t.Fatalf("%d bytes allocated for 100 that arrived", cap(got))
	}
	want := bytes.Repeat([]byte("0123456789abcdef"), 300_000)
	got, err = ReadContent(bufio.NewReader(bytes.NewReader(want)), len(want))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

func TestClampHidesWhatIsUnknown(t *testing.T) {
	if _, _, ok := Clamp(9999, 0, 5); ok {
		t.Error("an unknown API is offered")
	}
	if _, high, ok := Clamp(Metadata, 0, 999); !ok || high == 999 {
		t.Errorf("Metadata up to v%d is offered", high)
	}
	if low, _, ok := Clamp(SASLHandshake, 0, 1); !ok || low != 1 {
		t.Errorf("SaslHandshake from v%d on is offered: v0 is followed by frames without header", low)
	}
	if low, high, ok := Clamp(Produce, 3, 8); !ok || low != 3 || high != 8 {
		t.Errorf("Produce v%d-v%d, want what the broker says", low, high)
	}
}

func TestProducePrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := kmsg.NewPtrProduceRequest()
		req.Version = int16(rapid.IntRange(0, 13).Draw(t, "version"))
		req.Acks = int16(rapid.IntRange(-1, 1).Draw(t, "acks"))
		if rapid.Bool().Draw(t, "transactional") {
			req.TransactionID = kmsg.StringPtr(rapid.StringN(0, 20, 60).Draw(t, "id"))
		}
		n := rapid.IntRange(0, 3).Draw(t, "topics")
		for i := range n {
			rt := kmsg.NewProduceRequestTopic()
			rt.Topic = rapid.StringMatching(`[a-z.]{1,30}`).Draw(t, "topic")
			rt.TopicID[0] = byte(i + 1)
			req.Topics = append(req.Topics, rt)
		}
		body := req.AppendTo(nil)
		p, ok := ParseProducePrefix(body, req.Version)
		if !ok || p.Acks != req.Acks || p.HasTopic != (n > 0) {
			t.Fatalf("%+v %v", p, ok)
		}
		if n == 0 {
			return
		}
		if req.Version >= 13 && p.TopicID != req.Topics[0].TopicID || req.Version < 13 && p.Topic != req.Topics[0].Topic {
			t.Fatalf("first topic %+v", p)
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	f.Add(AppendRequest(nil, 1, kmsg.StringPtr("x"), kmsg.NewPtrMetadataRequest())[4:])
	f.Fuzz(func(t *testing.T, content []byte) {
		h, err := ParseHeader(content)
		if err != nil {
			return
		}
		if h.Body < MinHeader || h.Body > len(content) {
			t.Fatalf("body at %d of %d", h.Body, len(content))
		}
		if req, err := DecodeRequest(h, content[h.Body:]); err == nil {
			again, err := DecodeRequest(h, req.AppendTo(nil))
			if err != nil || !bytes.Equal(again.AppendTo(nil), req.AppendTo(nil)) {
				t.Fatalf("%s v%d does not encode to the same again: %v", kmsg.NameForKey(h.Key), h.Version, err)
			}
		}
	})
}

func FuzzProducePrefix(f *testing.F) {
	f.Add(kmsg.NewPtrProduceRequest().AppendTo(nil), int16(9))
	f.Fuzz(func(_ *testing.T, body []byte, version int16) {
		ParseProducePrefix(body, version)
	})
}

// Admin APIs pass, also those near the ones that only brokers speak.
func TestAdminAPIsAreOffered(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.UnregisterBroker, kmsg.DescribeQuorum, kmsg.ElectLeaders, kmsg.DescribeCluster, kmsg.DescribeTopicPartitions,
		kmsg.StreamsGroupHeartbeat, kmsg.ShareFetch, kmsg.AddRaftVoter, kmsg.UpdateFeatures, kmsg.AlterPartitionAssignments} {
		if _, ok := MaxVersion(int16(key)); !ok {
			t.Errorf("%s is hidden", key.Name())
		}
	}
	for _, key := range []kmsg.Key{kmsg.LeaderAndISR, kmsg.AlterPartition, kmsg.BrokerRegistration, kmsg.Vote, kmsg.Envelope} {
		if _, ok := MaxVersion(int16(key)); ok {
			t.Errorf("%s is offered to clients", key.Name())
		}
	}
}

func TestResponseVersion(t *testing.T) {
	refused := []byte{0, 0, 0, 1, 0, 35, 0, 0, 0, 0}
	fine := []byte{0, 0, 0, 1, 0, 0, 1}
	for _, c := range []struct {
		key     int16
		content []byte
		want    int16
	}{{APIVersions, refused, 0}, {APIVersions, fine, 3}, {Metadata, refused, 3}, {APIVersions, refused[:5], 3}} {
		if got := ResponseVersion(c.key, 3, c.content); got != c.want {
			t.Errorf("key %d, %v: v%d, want v%d", c.key, c.content, got, c.want)
		}
	}
}
