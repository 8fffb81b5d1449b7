package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/testenv"
)

// namespace is a network namespace, like the namespace that the containers of a Kubernetes
// pod share. It has only a loopback interface, on which every port is free. It is for
// programs whose ports a test cannot choose.
type namespace struct{ network *os.File }

// newNamespace makes a pod that exists until the test ends. If that is not allowed, as for
// most users other than root, the test is skipped; the name for WEIR_TEST_REQUIRE is
// namespaces.
func newNamespace(t testing.TB) *namespace {
	t.Helper()
	p := new(namespace)
	err := inThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		if err := raiseLoopback(); err != nil {
			return err
		}
		p.network, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		testenv.Unavailable(t, "namespaces", err)
	}
	t.Cleanup(func() { p.network.Close() })
	return p
}

// raiseLoopback brings up the loopback interface of the thread's network.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a socket: %w", err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("bringing up the loopback interface: %w", err)
	}
	return nil
}

// Listen listens in the pod. A child that another test has forked may hold a closed listener of the
// same address for a moment, until it executes its program.
func (p *namespace) Listen(t testing.TB, addr string) net.Listener {
	t.Helper()
	var l net.Listener
	testenv.Eventually(t, func() error {
		return p.within(func() (err error) {
			l, err = net.Listen("tcp", addr)
			return err
		})
	})
	t.Cleanup(func() { l.Close() })
	return l
}

// Dial connects to an address in the pod. http.Transport and gRPC can use it.
func (p *namespace) Dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	err = p.within(func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}

// Start starts cmd in the pod.
func (p *namespace) Start(cmd *exec.Cmd) error { return p.within(cmd.Start) }

// StartContainer starts cmd in the pod like a container in Kubernetes with
// runAsUser 65534 and readOnlyRootFilesystem. root is its root directory, which is
// read-only, and the program has no privileges.
func (p *namespace) StartContainer(cmd *exec.Cmd, root string) error {
	return p.within(func() error {
		// CLONE_NEWNS needs CLONE_FS, which separates the root and the working directory.
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
			return fmt.Errorf("making a mount namespace: %w", err)
		}
		mounts := []struct {
			source, target string
			flags          uintptr
		}{
			{"none", "/", unix.MS_REC | unix.MS_PRIVATE}, // hides the next mounts from other namespaces
			{root, root, unix.MS_BIND},
			{"none", root, unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY},
		}
		for _, m := range mounts {
			if err := unix.Mount(m.source, m.target, "", m.flags, ""); err != nil {
				return fmt.Errorf("mounting %s: %w", m.target, err)
			}
		}
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = new(syscall.SysProcAttr)
		}
		cmd.SysProcAttr.Chroot = root
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		cmd.Dir = "/"
		return cmd.Start()
	})
}

// within runs f in a thread that has entered the pod.
func (p *namespace) within(f func() error) error {
	return inThread(func() error {
		if err := unix.Setns(int(p.network.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering the pod: %w", err)
		}
		return f()
	})
}

// inThread runs f in a thread that is not used again. The thread stays until this
// process exits, because it may have started other programs before: Envoys got a
// SIGTERM when such threads exited.
func inThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock it
		done <- f()
		select {}
	}()
	return <-done
}
