package peers

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// cpu is the CPU time of all processes that count so far, in seconds.
func (t *trial) cpu() map[string]float64 {
	all := map[string]float64{}
	for _, m := range t.members {
		if m.alive() {
			all["consumers"] += CPU(m.cmd.Process.Pid)
		}
	}
	for name, pid := range t.b.Others {
		all[name] = CPU(pid)
	}
	return all
}

// read is how many bytes the members that live have read.
func (t *trial) read() (sum float64) {
	for _, m := range t.members {
		if m.alive() {
			sum += Read(m.cmd.Process.Pid)
		}
	}
	return sum
}

// CPU is the CPU time of a process so far, in seconds.
func CPU(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+2:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100 // the kernel's USER_HZ
}

// Read is how many bytes a process has read with read(2) so far: from sockets and files, jars included, but nothing that was spliced.
func Read(pid int) float64 { return Field(pid, "io", "rchar:") }

// Field is a number from a file of /proc.
func Field(pid int, file, field string) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			v, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return v
		}
	}
	return 0
}
