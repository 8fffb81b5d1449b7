package server

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"weir/internal/testenv"
)

// TestControlPlaneHeaders has headers in a variable, or in a file that changes. New streams have the
// new headers.
func TestControlPlaneHeaders(t *testing.T) {
	var seen sync.Map
	plane := testenv.StartControlPlane(t, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		got, _ := metadata.FromIncomingContext(stream.Context())
		for name, values := range got {
			seen.Store(name+":"+strings.Join(values, ","), true)
		}
		return handler(srv, stream)
	}))
	arrives := func(header string) {
		t.Helper()
		testenv.Until(t, header+" arrives", func() bool { _, ok := seen.Load(header); return ok })
	}
	start(t, fromControlPlane(plane, "--config-grpc-xds-client-additional-headers=Authorization:Bearer a:b,x-team:y")...)
	arrives("authorization:Bearer a:b")
	arrives("x-team:y")
	dir := t.TempDir()
	f := start(t, fromControlPlane(plane, "--config-grpc-xds-client-additional-headers-file="+mount(t, dir, "token:swordfish"))...)
	arrives("token:swordfish")
	mount(t, dir, "token:swordfish-2")
	f.wantLog("a changed setting is in use")
	plane.Stop()
	plane.Start()
	arrives("token:swordfish-2")
	f.wantNoPassword()
}

// TestBadSecretsAtTheStart checks that errors name the setting and quote no secret.
func TestBadSecretsAtTheStart(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	redis := "--redis-url=127.0.0.1:1"
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"none":      {[]string{redis, "--redis-auth-file=" + dir + "/none"}, "--redis-auth-file ($REDIS_AUTH_FILE): open " + dir + "/none: no such file or directory"},
		"empty":     {[]string{redis, "--redis-auth-file=" + file("empty", "\n")}, "--redis-auth-file ($REDIS_AUTH_FILE): " + dir + "/empty: it is empty"},
		"directory": {[]string{redis, "--redis-auth-file=" + dir}, "--redis-auth-file ($REDIS_AUTH_FILE): read " + dir + ": it is not a regular file; use a regular file or a link to a regular file"},
		"no URL":    {[]string{"--redis-url-file=" + file("url", "swordfish:fish")}, "with the secrets of REDIS_URL_FILE: --redis-url ($REDIS_URL): redis URL is not host:port, the path of a unix socket, or a URL with redis://, rediss:// or unix://; in a password, write special characters as %XX"},
		"a user":    {[]string{redis, "--redis-auth-file=" + file("user", "swordfish:")}, "with the secrets of REDIS_AUTH_FILE: --redis-url ($REDIS_URL): redis user has no password"},
		"command":   {[]string{redis, "--redis-auth-command=false swordfish"}, "--redis-auth-command ($REDIS_AUTH_COMMAND): the command failed: exit status 1"},
	} {
		args := append([]string{"--config=" + directory(t, limited(1))}, c.args...)
		_, err := New(options(t, io.Discard, args...))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// TestHurryEndsTheCommandOfTheStart cancels a start. On Ctrl-C, the terminal signals Weir but not the
// process group of the command.
func TestHurryEndsTheCommandOfTheStart(t *testing.T) {
	o := options(t, io.Discard, "--config="+directory(t, limited(1)), "--redis-url=127.0.0.1:1", "--redis-auth-command=sleep 60")
	hurry, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	o.Hurry = hurry
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "--redis-auth-command ($REDIS_AUTH_COMMAND): ") {
		t.Errorf("got %v, want the error of the command", err)
	}
}
