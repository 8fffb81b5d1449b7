//go:build !linux

package testenv

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"testing"
)

var errLinuxOnly = errors.New("there are no namespaces but on Linux")

// Pod exists on Linux only.
type Pod struct{}

// NewPod skips the test.
func NewPod(t testing.TB) *Pod {
	t.Helper()
	unavailable(t, "namespaces", errLinuxOnly)
	return nil
}

// Listen is never called.
func (*Pod) Listen(testing.TB, string) net.Listener { panic(errLinuxOnly) }

// Dial is never called.
func (*Pod) Dial(context.Context, string, string) (net.Conn, error) { return nil, errLinuxOnly }

// Start is never called.
func (*Pod) Start(*exec.Cmd) error { return errLinuxOnly }

// StartContainer is never called.
func (*Pod) StartContainer(*exec.Cmd, string) error { return errLinuxOnly }
