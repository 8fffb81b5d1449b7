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

// seen is which tokens have arrived where.
type seen struct{ places sync.Map }

func (s *seen) note(place, token string)     { s.places.Store(place+" "+token, true) }
func (s *seen) has(place, token string) bool { _, ok := s.places.Load(place + " " + token); return ok }

// TestHeadersForTheControlPlaneChange wants a new stream to have the new ones.
func TestHeadersForTheControlPlaneChange(t *testing.T) {
	t.Parallel()
	s := new(seen)
	plane := testenv.StartControlPlane(t, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		s.note("", strings.Join(md.Get("token"), ","))
		return handler(srv, stream)
	}))
	dir := t.TempDir()
	f := start(t, fromControlPlane(plane, "--config-grpc-xds-client-additional-headers-file="+mount(t, dir, "token:swordfish"),
		"--xds-client-backoff-initial-interval=10ms", "--config-grpc-xds-server-connect-retry-interval=10ms")...)
	testenv.Until(t, "the first arrives", func() bool { return s.has("", "swordfish") })
	mount(t, dir, "token:swordfish-2")
	f.wantLog("a changed setting is in use")
	plane.Stop()
	plane.Start()
	testenv.Until(t, "the second arrives", func() bool { return s.has("", "swordfish-2") })
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
	if n := f.opened(t); n != 0 {
		t.Errorf("the breaker is %v", n)
	}
	mount(t, dir, "swordfish-2")
	testenv.Eventually(t, func() error { _, err := f.ask(t.Context(), "alice"); return err })
	if strings.Contains(f.log.String(), "redis does not answer") {
		t.Error("the breaker opened")
	}
	f.wantNoPassword()
}

// opened is the metric of the breaker.
func (f *fixture) opened(t *testing.T) (open float64) {
	t.Helper()
	families := testenv.Must(f.opts.Registry.Gather())(t)
	for _, family := range families {
		if strings.Contains(family.GetName(), "breaker") {
			for _, m := range family.GetMetric() {
				open += m.GetGauge().GetValue()
			}
		}
	}
	return open
}
