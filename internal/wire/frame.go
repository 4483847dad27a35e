package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// Errors of a frame's first bytes. Each is final for its connection.
var (
	ErrFrameSize = errors.New("wire: frame size out of bounds")
	ErrTLSHello  = errors.New("wire: a TLS handshake on a port without TLS")
	ErrHTTP      = errors.New("wire: an HTTP request on a Kafka port")
)

// CheckSize says whether n, read from the start of a frame, can be the size of
// a Kafka frame of at most limit bytes, and if not, what the bytes look like.
func CheckSize(n uint32, limit int) error {
	if n >= MinHeader && uint64(n) <= uint64(limit) {
		return nil
	}
	switch {
	case n>>16 == 0x1603:
		return ErrTLSHello
	case n == 0x47455420 || n == 0x504f5354 || n == 0x48454144: // "GET ", "POST", "HEAD"
		return ErrHTTP
	}
	return fmt.Errorf("%w: %d bytes, at most %d are accepted", ErrFrameSize, n, limit)
}

// growStep bounds what a size alone can make us allocate: memory follows the
// bytes that really arrive.
const growStep = 1 << 20

// ReadContent reads n bytes from r.
func ReadContent(r *bufio.Reader, n int) ([]byte, error) {
	if n <= growStep {
		buf := make([]byte, n)
		_, err := io.ReadFull(r, buf)
		return buf, err
	}
	buf := make([]byte, 0, growStep)
	for len(buf) < n {
		if len(buf) == cap(buf) {
			next := make([]byte, len(buf), min(n, 2*cap(buf)))
			copy(next, buf)
			buf = next
		}
		end := min(n, cap(buf))
		m, err := io.ReadFull(r, buf[len(buf):end])
		buf = buf[:len(buf)+m]
		if err != nil {
			return buf, err
		}
	}
	return buf, nil
}
