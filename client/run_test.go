package client

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

func TestOneClientHandlesEverythingOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 2)
	w.produce("t", 500, 20)
	c := w.run(w.judge("a", nil))
	w.until("500 records", func() bool { return w.count() >= 500 })
	c.close()
	if err := c.result(); err != nil {
		t.Error(err)
	}
	w.wantOnce("t", 500, 20)
}

func TestThreeClientsShareAPartition(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	var clients []*member
	for i := range 3 {
		clients = append(clients, w.run(w.judge(fmt.Sprint(i), nil), ShareByKey()))
	}
	w.until("all have a part", func() bool {
		for _, c := range clients {
			if len(c.Assigned()) == 0 {
				return false
			}
		}
		return true
	})
	w.produce("t", 3000, 100)
	w.until("3000 records", func() bool { return w.count() >= 3000 })
	for _, c := range clients {
		c.close()
	}
	w.wantOnce("t", 3000, 100)
}

// On a view too each record is committed on its own: one that blocks its key is all that is left for the next client.
func TestRecordsOfAViewAreCommittedOneByOne(t *testing.T) {
	w := newWorld(t, nil)
	w.Topic("t", 1)
	view := "t.view4"
	c := w.run(w.judge("a", func(ctx context.Context, r *Record) error {
		if string(r.Key) == "k7" && string(r.Value) == "0" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}), ShareByKey(), Topics(view), DrainTimeout(50*time.Millisecond))
	w.produce("t", 500, 100)
	w.until("495 records", func() bool { return w.count() >= 495 })
	c.close()
	d := w.run(w.judge("b", nil), ShareByKey(), Topics(view))
	w.until("500 records", func() bool { return w.count() >= 500 })
	d.close()
	offsets, err := kadm.NewClient(w.Direct()).FetchOffsets(context.Background(), "g")
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := offsets.Lookup("t", 0); o.At != 500 {
		t.Errorf("the stable offset is %d, not 500", o.At)
	}
	w.wantOnce(view, 500, 100)
}
