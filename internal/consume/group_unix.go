//go:build unix

package consume

import (
	"os/exec"
	"syscall"
)

// inGroup gives a command a process group of its own: a terminal's Ctrl-C is for tandem, which then waits for it.
func inGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signalGroup sends a signal to all processes of a command's group, if there are any.
func signalGroup(cmd *exec.Cmd, s syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, s) }
