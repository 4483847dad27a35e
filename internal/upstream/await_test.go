package upstream

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

// Who waits is told so once: what is wrong, or that nothing came yet where a connection is taken and stays silent.
func TestAwaitSaysThatItWaits(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for addr, want := range map[string]string{silent.Addr().String(): "no answer yet", "127.0.0.1:1": "connection refused"} {
		t.Run(want, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			said := 0
			cfg := Config{Bootstrap: []string{addr}, Waiting: func(addresses string, cause error) {
				if said++; addresses != addr || !strings.Contains(cause.Error(), want) {
					t.Errorf("it says %s: %v", addresses, cause)
				}
				time.AfterFunc(waitingAfter, cancel)
			}}
			err := cfg.Await(ctx)
			if said != 1 || err == nil || !strings.Contains(err.Error(), "no answer from "+addr) {
				t.Errorf("said %d times; %v", said, err)
			}
		})
	}
}
