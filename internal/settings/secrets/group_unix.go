//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package secrets

import (
	"errors"
	"os/exec"
	"syscall"
)

// setGroup has a command run in a process group of its own.
func setGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the processes of a command's group that are left. The group has the ID of
// the command's process.
func killGroup(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }

// endGroup kills the group of a command that has ended. The first process of a container
// becomes the parent of what is left: there nobody else would wait for them, and each would
// keep its entry in the table of processes.
func endGroup(c *exec.Cmd) {
	killGroup(c)
	var err error
	for err == nil || errors.Is(err, syscall.EINTR) { // until there is none
		_, err = syscall.Wait4(-c.Process.Pid, nil, 0, nil)
	}
}
