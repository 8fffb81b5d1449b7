//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package server

import "syscall"

// sharePort does nothing where a port cannot be shared.
func sharePort(_, _ string, _ syscall.RawConn) error { return nil }

// fileDescriptors is how many the process may have, which is not known here.
func fileDescriptors() uint64 { return 1 << 20 }
