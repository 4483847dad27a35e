//go:build unix

package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const lockFile = "tandem.lock"

// folderLock is the exclusive flock of a data folder. The kernel releases it
// when the process ends in whatever way.
type folderLock struct{ f *os.File }

func lockFolder(dir string) (*folderLock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
		}
		return nil, fmt.Errorf("data folder %s: lock: %w", dir, err)
	}
	return &folderLock{f}, nil
}

// unlock leaves the file: removing it would let two processes lock two files
// of the same name.
func (l *folderLock) unlock() { l.f.Close() }
