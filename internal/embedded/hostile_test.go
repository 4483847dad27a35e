package embedded

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Well-formed requests with senseless contents, of every API in every version,
// leave the process alive: a panic in kfake would end it.
// TANDEM_SEED repeats a run.
func TestSenselessRequests(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("TANDEM_SEED"), 10, 64); err == nil {
		seed = s
	}
	rounds := 2
	if n, err := strconv.Atoi(os.Getenv("TANDEM_ROUNDS")); err == nil {
		rounds = n
	}
	t.Logf("TANDEM_SEED=%d TANDEM_ROUNDS=%d", seed, rounds)
	rnd := rand.New(rand.NewPCG(seed, 0))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	dir := t.TempDir()
	child := startChild(t, dir, port)
	defer func() { kill(child) }()
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"a", "orders"} { // names that scramble uses
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	defer cl.Close()
	var conn net.Conn
	for range rounds {
		if _, err := kadm.NewClient(cl).BrokerMetadata(testContext(t)); err != nil {
			t.Fatalf("it answers no more: %v", err)
		}
		for key := int16(0); key <= kmsg.MaxKey; key++ {
			req := kmsg.RequestForKey(key)
			if req == nil {
				continue
			}
			for version := int16(0); version <= req.MaxVersion(); version++ {
				req := kmsg.RequestForKey(key)
				scramble(rnd, reflect.ValueOf(req).Elem(), 0)
				req.SetVersion(version)
				if conn == nil {
					if conn, err = net.Dial("tcp", addr); err != nil {
						t.Fatalf("the process is gone: %v", err)
					}
				}
				var head []byte
				head = binary.BigEndian.AppendUint16(head, uint16(key))
				head = binary.BigEndian.AppendUint16(head, uint16(version))
				head = binary.BigEndian.AppendUint32(head, 1)
				head = append(head, 0xff, 0xff)
				if req.IsFlexible() {
					head = append(head, 0)
				}
				frame := req.AppendTo(head)
				conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
				conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
				if !readFrame(conn) {
					conn.Close()
					conn = nil
					if probe, err := net.Dial("tcp", addr); err != nil {
						t.Errorf("%s v%d ended the process: %+v", kmsg.NameForKey(key), version, req)
						kill(child)
						child = startChild(t, dir, port)
					} else {
						probe.Close()
					}
				}
			}
		}
	}
}

func readFrame(c net.Conn) bool {
	var size [4]byte
	if _, err := c.Read(size[:]); err != nil {
		return false
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	for n := 0; n < len(body); {
		m, err := c.Read(body[n:])
		if err != nil {
			return false
		}
		n += m
	}
	return true
}

// scramble fills v with values that an attacker would choose.
func scramble(rnd *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			if f.CanSet() && v.Type().Field(i).Name != "UnknownTags" {
				scramble(rnd, f, depth+1)
			}
		}
	case reflect.Slice:
		n := rnd.IntN(4)
		if n == 3 {
			return // nil
		}
		s := reflect.MakeSlice(v.Type(), n, n)
		for i := range n {
			e := s.Index(i)
			if d := e.Addr().MethodByName("Default"); d.IsValid() {
				d.Call(nil)
			}
			scramble(rnd, e, depth+1)
		}
		v.Set(s)
	case reflect.Pointer:
		if rnd.IntN(3) == 0 {
			v.SetZero()
			return
		}
		p := reflect.New(v.Type().Elem())
		scramble(rnd, p.Elem(), depth+1)
		v.Set(p)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		values := []int64{0, 1, -1, -2, 2, 100, 1<<31 - 1, -1 << 31, 1<<63 - 1}
		v.SetInt(values[rnd.IntN(len(values))])
	case reflect.String:
		v.SetString([]string{"", "a", "orders", "x\x00y", "."}[rnd.IntN(5)])
	case reflect.Bool:
		v.SetBool(rnd.IntN(2) == 0)
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(rnd.IntN(2)))
		}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(rnd.IntN(256)))
	case reflect.Float64:
		v.SetFloat(rnd.NormFloat64())
	}
}
