//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package secrets

import (
	"os/exec"
	"syscall"
)

// setGroup has a command run in a process group of its own.
func setGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the processes of a command's group that are left. The group has the ID of
// the command's process.
func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
