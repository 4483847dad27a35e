package pipe

import (
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

// The ways to join two goroutines: ours, a pair of Unix sockets, TCP.
var ways = []struct {
	name string
	make func(b *testing.B) (net.Conn, net.Conn)
}{
	{"pipe", func(*testing.B) (net.Conn, net.Conn) { return New("a", "b") }},
	{"unix", func(b *testing.B) (net.Conn, net.Conn) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			b.Skip(err)
		}
		var ends [2]net.Conn
		for i, fd := range fds {
			f := os.NewFile(uintptr(fd), "pair")
			if ends[i], err = net.FileConn(f); err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
		return ends[0], ends[1]
	}},
	{"tcp", func(b *testing.B) (net.Conn, net.Conn) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		x, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		y, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		return x, y
	}},
}

// BenchmarkBulk passes a megabyte on from a TCP connection, as an answer to a
// Fetch.
func BenchmarkBulk(b *testing.B) {
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			broker, up := ways[2].make(b)
			server, client := way.make(b)
			defer broker.Close()
			defer up.Close()
			defer server.Close()
			defer client.Close()
			const size = 1 << 20
			out, body := make([]byte, size), make([]byte, size)
			b.SetBytes(size)
			go func() {
				for {
					if _, err := io.CopyN(server, up, size); err != nil {
						return
					}
				}
			}()
			go func() {
				for {
					if _, err := broker.Write(out); err != nil {
						return
					}
				}
			}()
			for b.Loop() {
				if _, err := io.ReadFull(client, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkThereAndBack is a small request and its answer.
func BenchmarkThereAndBack(b *testing.B) {
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			server, client := way.make(b)
			defer server.Close()
			defer client.Close()
			go func() {
				p := make([]byte, 100)
				for {
					if _, err := io.ReadFull(server, p); err != nil {
						return
					}
					if _, err := server.Write(p); err != nil {
						return
					}
				}
			}()
			p := make([]byte, 100)
			for b.Loop() {
				if _, err := client.Write(p); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(client, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
