package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// socketMode lets owner and group connect, which takes the right to write.
const socketMode = 0o660

// listenUnix binds a unix socket at path, in the place of one that nobody
// listens at any more. It is removed when the listener is closed.
func listenUnix(path string) (net.Listener, error) {
	if most := len(syscall.RawSockaddrUnix{}.Path) - 1; len(path) > most {
		return nil, fmt.Errorf("%s: the path has %d bytes; use at most %d", path, len(path), most)
	}
	if abstract(path) {
		return net.Listen("unix", path)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// abstract reports whether path is a name that Linux keeps without a file, so that
// there is nothing to lock, to remove or to protect.
func abstract(path string) bool {
	return runtime.GOOS == "linux" && strings.HasPrefix(path, "@")
}

// removeStale removes the socket that a process left behind which could not
// clean up, and nothing else.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket; it is not replaced", path)
	}
	conn, err := net.Dial("unix", path)
	switch {
	case err == nil:
		conn.Close()
		return fmt.Errorf("%s: another process listens there: %w", path, syscall.EADDRINUSE)
	case !errors.Is(err, syscall.ECONNREFUSED):
		return err
	}
	return os.Remove(path)
}
