//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package server

import (
	"errors"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// sharePort lets other processes of the same user listen at the address, too, if
// they do the same: the system spreads new connections over them. So one server
// can take the place of another on the same machine, as envoyproxy/ratelimit lets
// it. A port that the system is to choose is not shared.
func sharePort(_, address string, socket syscall.RawConn) error {
	if strings.HasSuffix(address, ":0") {
		return nil
	}
	var refused error
	err := socket.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, refused)
}

// fileDescriptors is how many the process may have.
func fileDescriptors() uint64 {
	const many = 1 << 20 // as good as any number
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return many
	}
	return uint64(min(limit.Cur, many)) //nolint:unconvert // it is signed on some systems
}
