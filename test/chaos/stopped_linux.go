package chaos

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// stopped says which thread of a process still runs after SIGSTOP.
func stopped(pid int) string {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, f := range threads {
		b, err := os.ReadFile(f)
		if i := bytes.LastIndexByte(b, ')'); err == nil && i > 0 && i+2 < len(b) && b[i+2] != 'T' {
			return fmt.Sprintf("a thread of %d is in state %c", pid, b[i+2])
		}
	}
	return ""
}
