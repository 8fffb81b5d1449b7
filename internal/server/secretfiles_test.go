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

// headersAt starts a control plane, and returns whether it has got a header.
func headersAt(t *testing.T) (*testenv.ControlPlane, func(name, value string) bool) {
	var seen sync.Map
	plane := testenv.StartControlPlane(t, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		got, _ := metadata.FromIncomingContext(stream.Context())
		for name, values := range got {
			seen.Store(name+":"+strings.Join(values, ","), true)
		}
		return handler(srv, stream)
	}))
	return plane, func(name, value string) bool { _, ok := seen.Load(name + ":" + value); return ok }
}

func TestControlPlaneHeaders(t *testing.T) {
	t.Setenv("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "Authorization:Bearer a:b,x-team:y")
	plane, has := headersAt(t)
	start(t, fromControlPlane(plane)...)
	testenv.Until(t, "the headers arrive", func() bool { return has("authorization", "Bearer a:b") && has("x-team", "y") })
}

// TestHeadersForTheControlPlaneChange wants a new stream to have the new ones.
func TestHeadersForTheControlPlaneChange(t *testing.T) {
	t.Parallel()
	plane, has := headersAt(t)
	dir := t.TempDir()
	f := start(t, fromControlPlane(plane, "--config-grpc-xds-client-additional-headers-file="+mount(t, dir, "token:swordfish"),
		"--xds-client-backoff-initial-interval=10ms", "--config-grpc-xds-server-connect-retry-interval=10ms")...)
	testenv.Until(t, "the first arrives", func() bool { return has("token", "swordfish") })
	mount(t, dir, "token:swordfish-2")
	f.wantLog("a changed setting is in use")
	plane.Stop()
	plane.Start()
	testenv.Until(t, "the second arrives", func() bool { return has("token", "swordfish-2") })
	f.wantNoPassword()
}

// TestBadSecretsAtTheStart names the setting, and nothing of the secret.
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
		"no URL":    {[]string{"--redis-url-file=" + file("url", "swordfish")}, "with the secrets of REDIS_URL_FILE: --redis-url ($REDIS_URL): redis URL is not host:port, the path of a unix socket, or a URL with redis://, rediss:// or unix://; in a password, write special characters as %XX"},
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

// TestHurryEndsTheCommandOfTheStart has Ctrl-C end a start: a terminal sends its signal to Weir,
// but not to the process group of the command.
func TestHurryEndsTheCommandOfTheStart(t *testing.T) {
	o := options(t, io.Discard, "--config="+directory(t, limited(1)), "--redis-url=127.0.0.1:1", "--redis-auth-command=sleep 60")
	hurry, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	o.Hurry = hurry
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "--redis-auth-command ($REDIS_AUTH_COMMAND): ") {
		t.Errorf("got %v, want the error of the command", err)
	}
}

// TestPasswordThatComesLate has Redis refuse the password for longer than a call waits. That
// is no silence: calls go on, and the first after the file has changed is answered.
func TestPasswordThatComesLate(t *testing.T) {
	redis := testenv.RedisServer(t, "--requirepass", "swordfish-1")
	dir := t.TempDir()
	f := start(t, "--config="+directory(t, limited(yearly)), "--redis-url="+redis.Addr(), "--redis-auth-file="+mount(t, dir, "swordfish-1"))
	f.wantHealth(true, "OK")
	o := newOperator(t, "swordfish-1", redis)
	o.requirePass("swordfish-2")
	o.kill()
	for range 10 { // the breaker would open at five calls without an answer
		if _, err := f.ask(t.Context(), "alice"); err == nil {
			t.Error("a call was answered without a password")
		}
	}
	f.wantAnswer("GET", f.debug.addr(), "/", 200, "auth: WRONGPASS")
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, `weir_redis_breaker_open{redis="main"} 0`)
	mount(t, dir, "swordfish-2")
	testenv.Eventually(t, func() error { _, err := f.ask(t.Context(), "alice"); return err })
	if strings.Contains(f.log.String(), "redis does not answer") {
		t.Error("the breaker opened")
	}
	f.wantNoPassword()
}
