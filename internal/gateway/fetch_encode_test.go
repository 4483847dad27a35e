package gateway

import (
	"bytes"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
)

// Pieces of records leave in their order, whatever their sizes; the large ones from where they are, and what was written before a lot of small ones is not
// written again.
func TestPiecesLeaveInOrder(t *testing.T) {
	for _, c := range []struct {
		to     net.Conn
		copied int
	}{{&net.TCPConn{}, copyBelowTCP}, {nil, copyBelow}} {
		w := newFetchWriter(12, c.to)
		w.buf = append(w.buf, "head"...)
		first := &w.buf[0]
		want := []byte("head")
		own := map[*byte]bool{} // where pieces begin that are not to be copied
		for part := range 3 {
			var pieces [][]byte
			n := 0
			for i := range 200 {
				p := bytes.Repeat([]byte{byte(part), byte(i)}, 1+(i*i)%(copyBelow/2+300))
				pieces = append(pieces, p)
				n += len(p)
				if len(p) >= c.copied {
					own[&p[0]] = true
				}
			}
			w.records(pieces)
			w.tags()
			want = append(append(kbin.AppendUvarint(want, uint32(n+1)), bytes.Join(pieces, nil)...), 0)
		}
		w.flush()
		if got := bytes.Join(w.bufs, nil); !bytes.Equal(got, want) || w.size != len(want) {
			t.Errorf("copies below %d: %d bytes of %d, and not the right ones", c.copied, len(got), len(want))
		}
		if &w.bufs[0][0] != first {
			t.Errorf("copies below %d: the head was moved", c.copied)
		}
		for _, b := range w.bufs {
			delete(own, &b[0])
		}
		if len(own) > 0 {
			t.Errorf("%d pieces of %d bytes or more were copied", len(own), c.copied)
		}
	}
}
