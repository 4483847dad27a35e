package client

import (
	"fmt"
	"testing"
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
