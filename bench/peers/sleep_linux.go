package peers

import (
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// sleeper waits as exactly as a broker's answer or a database's would come: Go's own timers are up to 1 ms late on a machine that has little to do,
// since the runtime waits in epoll, by whole milliseconds. A timer of the kernel's wakes it like a socket.
type sleeper struct{ idle sync.Pool }

type timer struct {
	file *os.File
	conn syscall.RawConn
	buf  [8]byte
}

func newTimer() (*timer, error) {
	const monotonic, nonblock, cloexec = 1, syscall.O_NONBLOCK, syscall.O_CLOEXEC
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, monotonic, nonblock|cloexec, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	t := &timer{file: os.NewFile(fd, "timer")}
	var err error
	t.conn, err = t.file.SyscallConn()
	return t, err
}

func (s *sleeper) sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t, _ := s.idle.Get().(*timer)
	if t == nil {
		var err error
		if t, err = newTimer(); err != nil {
			return err
		}
	}
	defer s.idle.Put(t)
	spec := [2]syscall.Timespec{1: syscall.NsecToTimespec(int64(d))}
	var errno syscall.Errno
	if err := t.conn.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	}); err != nil {
		return err
	}
	if errno != 0 {
		return os.NewSyscallError("timerfd_settime", errno)
	}
	_, err := t.file.Read(t.buf[:])
	return err
}
