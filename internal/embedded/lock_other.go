//go:build !unix

package embedded

import (
	"fmt"
	"os"
	"path/filepath"
)

const lockFile = "tandem.lock"

// folderLock holds the lock file open. Systems without flock refuse to remove
// an open file, which is the lock: it is made anew by whoever can remove it.
type folderLock struct{ f *os.File }

func lockFolder(dir string) (*folderLock, error) {
	path := filepath.Join(dir, lockFile)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	}
	return &folderLock{f}, nil
}

func (l *folderLock) unlock() { l.f.Close() }
