package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

const (
	portBlock = 64    // ports are handed out in blocks of this size, one lock file each
	portFirst = 23040 // below the range that the kernel takes for outgoing connections
	portLast  = 32704
)

var ports struct {
	sync.Mutex
	next, end int
	locks     []*os.File // held until the process ends
}

// Ports returns the first of n consecutive free ports of 127.0.0.1 that no other test process gets. n is 64 at most.
func Ports(t testing.TB, n int) int {
	t.Helper()
	if n > portBlock {
		t.Fatalf("harness: %d ports asked, at most %d", n, portBlock)
	}
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		if ports.end-ports.next < n && !lockBlock() {
			continue
		}
		first := ports.next
		ports.next += n
		if free(first, n) {
			return first
		}
	}
	t.Fatalf("harness: found no %d free ports from %d to %d", n, portFirst, portLast)
	return 0
}

// lockBlock takes a random block that no other process has.
func lockBlock() bool {
	dir := filepath.Join(os.TempDir(), "tandem-test-ports")
	if os.MkdirAll(dir, 0o777) != nil {
		return false
	}
	first := portFirst + portBlock*rand.IntN((portLast-portFirst)/portBlock)
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(first)), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return false
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = f.Close()
		return false
	}
	ports.locks = append(ports.locks, f)
	ports.next, ports.end = first, first+portBlock
	return true
}

func free(first, n int) bool {
	for p := first; p < first+n; p++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
