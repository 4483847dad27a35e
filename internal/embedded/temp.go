package embedded

import (
	"fmt"
	"os"
	"path/filepath"
)

const temporaryPrefix = "tandem-embedded-"

// temporaryFolder makes a folder for an engine without one. Folders that a
// killed process left behind, which nobody has locked, go away first.
func temporaryFolder() (string, error) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), temporaryPrefix+"*"))
	for _, dir := range left {
		// A folder without a lock file is just being made.
		if _, err := os.Stat(filepath.Join(dir, lockFile)); err != nil {
			continue
		}
		if l, err := lockFolder(dir); err == nil {
			os.RemoveAll(dir)
			l.unlock()
		}
	}
	dir, err := os.MkdirTemp("", temporaryPrefix)
	if err != nil {
		return "", fmt.Errorf("temporary data folder: %w", err)
	}
	return dir, nil
}
