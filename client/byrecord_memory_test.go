package client

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/tandem-kafka/tandem/internal/gateway"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Members work through several partitions at once that are much larger than the memory of the gateway, which holds no more than it may, and nothing is lost or done twice.
func TestMembersThatShareByRecordInLittleMemory(t *testing.T) {
	const topics, n, limit = 4, 600, 4 << 20
	w := newWorld(t, func(c *gateway.Config) { c.Limits.CacheBytes = limit })
	producer := w.Direct(kgo.ProducerBatchMaxBytes(100_000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	var names []string
	for i := range topics {
		name := fmt.Sprint("t", i)
		names = append(names, name)
		w.Topic(name, 1)
		var records []*kgo.Record
		for j := range n {
			records = append(records, &kgo.Record{Topic: name, Key: fmt.Append(nil, name, j), Value: bytes.Repeat([]byte{byte(j)}, 5000)})
		}
		if err := producer.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	most := int64(0)
	held := func() int64 {
		rec := httptest.NewRecorder()
		w.Gateway.Metrics().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		_, rest, _ := strings.Cut(rec.Body.String(), "\ntandem_memory_cooperative_bytes ")
		line, _, _ := strings.Cut(rest, "\n")
		v, err := strconv.ParseFloat(line, 64)
		if err != nil {
			t.Fatal(err)
		}
		return int64(v)
	}
	var clients []*member
	for i := range 3 {
		clients = append(clients, w.run(w.judge(fmt.Sprint(i), func(context.Context, *Record) error { return nil }), Topics(names...), ShareByRecord(), Concurrency(4)))
	}
	w.until("all records", func() bool {
		most = max(most, held())
		return w.count() >= topics*n
	})
	for _, c := range clients {
		c.close()
		if err := c.result(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("at most %d KiB were held", most>>10)
	if most == 0 || most > limit/4 {
		t.Errorf("%d bytes were held, and %d may be", most, limit/4)
	}
	w.until("nothing is held", func() bool { return held() == 0 })
}
