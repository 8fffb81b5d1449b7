//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package app

import "syscall"

// sharePort does nothing where a port cannot be shared.
func sharePort(_, _ string, _ syscall.RawConn) error { return nil }

// lockDirectory does nothing where a directory cannot be locked.
func lockDirectory(string) (unlock func()) { return func() {} }
