//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package server

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

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

// lockDirectory keeps other processes that do the same out of a directory until it
// is unlocked. Where it may not be read, or somebody else keeps it locked for a
// second, it is not locked.
func lockDirectory(dir string) (unlock func()) {
	f, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	look := time.NewTicker(10 * time.Millisecond) // the system reports no unlocking
	defer look.Stop()
	for range 100 {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			break // locked, or the file system knows no locks
		}
		<-look.C
	}
	return func() { _ = f.Close() } // which unlocks it
}
