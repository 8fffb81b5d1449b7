//go:build !linux

package e2e

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"testing"

	"weir/internal/testenv"
)

var errLinuxOnly = errors.New("there are no namespaces but on Linux")

// namespace exists on Linux only.
type namespace struct{}

// newNamespace skips the test.
func newNamespace(t testing.TB) *namespace {
	t.Helper()
	testenv.Unavailable(t, "namespaces", errLinuxOnly)
	return nil
}

// Listen is never called.
func (*namespace) Listen(testing.TB, string) net.Listener { panic(errLinuxOnly) }

// Dial is never called.
func (*namespace) Dial(context.Context, string, string) (net.Conn, error) { return nil, errLinuxOnly }

// Start is never called.
func (*namespace) Start(*exec.Cmd) error { return errLinuxOnly }

// StartContainer is never called.
func (*namespace) StartContainer(*exec.Cmd, string) error { return errLinuxOnly }
