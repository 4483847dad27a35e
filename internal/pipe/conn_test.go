package pipe

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Whatever the sizes and the ways to write and to read, what comes out is what
// went in.
func TestBytesArriveAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := make([]byte, rapid.IntRange(0, 3*maxHeld).Draw(t, "bytes"))
		fast := rapid.IntRange(1, 200_000).Draw(t, "written at a time")
		slow := rapid.IntRange(1, 200_000).Draw(t, "read at a time")
		if least := len(want) / 2000; fast < least || slow < least {
			fast, slow = max(fast, least), max(slow, least)
		}
		source := rand.NewChaCha8([32]byte{byte(fast), byte(slow)})
		_, _ = source.Read(want)
		a, b := New("a", "b")
		plain, bulk := rapid.Bool().Draw(t, "read plainly"), rapid.Bool().Draw(t, "write in bulk")
		go func() {
			defer a.Close()
			for rest, i := want, 0; len(rest) > 0; i++ {
				n := min(len(rest), fast)
				if bulk && i%2 == 0 {
					_, _ = a.ReadFrom(bytes.NewReader(rest[:n]))
				} else {
					_, _ = a.Write(rest[:n])
				}
				rest = rest[n:]
			}
		}()
		var got bytes.Buffer
		for err := error(nil); err == nil; {
			if plain {
				p := make([]byte, slow)
				var n int
				n, err = b.Read(p)
				got.Write(p[:n])
			} else {
				_, err = b.CopyTo(&got, int64(slow))
			}
			if err != nil && err != io.EOF {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("%d bytes arrived of %d, or others", got.Len(), len(want))
		}
		if len(a.out.blocks) > 0 || a.out.held != 0 {
			t.Fatalf("an idle connection holds %d blocks of %d bytes", len(a.out.blocks), a.out.held)
		}
	})
}

// A block that was taken for bytes that never came does not stay behind those
// that were not read yet.
func TestNothingIsHeldForWhatDoesNotCome(t *testing.T) {
	a, b := New("a", "b")
	defer a.Close()
	defer b.Close()
	const most = bulkSize - leastRoom/2 // of a block
	if _, err := a.Write(make([]byte, most)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.ReadFrom(bytes.NewReader(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CopyTo(io.Discard, most); err != nil {
		t.Fatal(err)
	}
	if len(a.out.blocks) > 0 || a.out.held != 0 {
		t.Errorf("an idle connection holds %d blocks of %d bytes", len(a.out.blocks), a.out.held)
	}
}

// A reader that stops holds the writer up, and no more than the bound in memory.
func TestWriterWaitsForReader(t *testing.T) {
	a, b := New("a", "b")
	defer a.Close()
	defer b.Close()
	type result struct {
		n   int
		err error
	}
	wrote := make(chan result)
	go func() {
		n, err := a.Write(make([]byte, 10<<20))
		wrote <- result{n, err}
	}()
	for !full(a.out) {
		runtime.Gosched()
	}
	a.SetWriteDeadline(time.Now())
	w := <-wrote
	n, err := w.n, w.err
	if !errors.Is(err, os.ErrDeadlineExceeded) || n != maxHeld {
		t.Fatalf("%d bytes and %v", n, err)
	}
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v is no timeout", err)
	}
	a.SetWriteDeadline(time.Time{})
	done := make(chan error)
	go func() { _, err := a.Write([]byte("more")); done <- err }()
	if _, err := b.CopyTo(io.Discard, int64(n)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	p := make([]byte, 9)
	if n, err := b.Read(p); string(p[:n]) != "more" {
		t.Errorf("%q, %v", p[:n], err)
	}
}

func TestDeadlines(t *testing.T) {
	a, b := New("a", "b")
	defer a.Close()
	defer b.Close()
	p := make([]byte, 1)
	read := func() error { _, err := b.Read(p); return err }
	b.SetReadDeadline(time.Unix(1, 0))
	if _, err := a.Write(p); err != nil {
		t.Fatal(err)
	}
	if err := read(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("past: %v", err)
	}
	b.SetReadDeadline(time.Time{})
	if err := read(); err != nil {
		t.Errorf("none any more: %v", err)
	}
	b.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if err := read(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("soon: %v", err)
	}
	b.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	b.SetReadDeadline(time.Now().Add(time.Hour))
	failed := make(chan error)
	go func() { failed <- read() }()
	select {
	case err := <-failed:
		t.Errorf("put off: %v", err)
	case <-time.After(50 * time.Millisecond):
		b.SetReadDeadline(time.Now())
		if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("brought forward: %v", err)
		}
	}
	// A wall clock's time has no monotonic part, and counts too.
	b.SetDeadline(time.Now().Add(10 * time.Millisecond).Round(0))
	if err := read(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("of the wall clock: %v", err)
	}
}

func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end         func(a *Conn)
		data        string
		read, write error
	}{
		"clean": {func(a *Conn) { a.Close() }, "last words", io.EOF, syscall.EPIPE},
		"reset": {func(a *Conn) { a.SetLinger(0); a.Close() }, "", syscall.ECONNRESET, syscall.EPIPE},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := New("a", "b")
			defer b.Close()
			a.Write([]byte("last words"))
			c.end(a)
			data, err := io.ReadAll(b)
			if err == nil {
				err = io.EOF
			}
			if string(data) != c.data || !errors.Is(err, c.read) {
				t.Errorf("read %q and %v", data, err)
			}
			if _, err := b.Write([]byte("x")); !errors.Is(err, c.write) {
				t.Errorf("write: %v", err)
			}
			if _, err := b.ReadFrom(bytes.NewReader([]byte("x"))); !errors.Is(err, c.write) {
				t.Errorf("write in bulk: %v", err)
			}
			if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("read at the closed end: %v", err)
			}
			if _, err := a.Write(nil); !errors.Is(err, net.ErrClosed) {
				t.Errorf("write at the closed end: %v", err)
			}
			if err := a.SetDeadline(time.Now().Add(time.Hour)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("deadline at the closed end: %v", err)
			}
		})
	}
}

// Whoever waits at either end is let go when the connection ends.
func TestCloseEndsWaits(t *testing.T) {
	for _, closer := range []string{"this end", "the other end"} {
		a, b := New("a", "b")
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { io.Copy(io.Discard, a) })
			wg.Go(func() { a.Write(make([]byte, 10<<20)) })
			wg.Go(func() { a.SetReadDeadline(time.Now().Add(time.Hour)) })
		}
		for !full(a.out) {
			runtime.Gosched()
		}
		if closer == "this end" {
			a.Close()
		} else {
			b.Close()
		}
		wg.Wait()
		a.Close()
		b.Close()
	}
}

// full reports whether a writer that wants more must wait.
func full(h *half) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held == maxHeld && !h.filling && h.blocks[len(h.blocks)-1].w == bulkSize
}

// An error of the other side of a copy is told as it is.
func TestErrorsOfOthersPass(t *testing.T) {
	a, b := New("a", "b")
	defer a.Close()
	defer b.Close()
	mine := errors.New("mine")
	if _, err := a.ReadFrom(io.MultiReader(bytes.NewReader([]byte("some")), failing{mine})); err != mine {
		t.Errorf("ReadFrom: %v", err)
	}
	if n, err := b.CopyTo(failing{mine}, 4); err != mine || n != 0 {
		t.Errorf("CopyTo: %d, %v", n, err)
	}
	if p := make([]byte, 9); true {
		if n, _ := b.Read(p); string(p[:n]) != "some" {
			t.Errorf("what could not be passed on is %q", p[:n])
		}
	}
	a.Write([]byte("ab"))
	a.Close()
	if n, err := b.CopyTo(io.Discard, 4); n != 2 || err != io.EOF {
		t.Errorf("CopyTo at the end: %d, %v", n, err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }
