//go:build !unix

package consume

import (
	"os/exec"
	"syscall"
)

func inGroup(*exec.Cmd) {}

// signalGroup kills the command: there are no groups and no signals.
func signalGroup(cmd *exec.Cmd, _ syscall.Signal) { _ = cmd.Process.Kill() }
