package testenv

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// RedisTLS starts a redis-server that also accepts TLS, at the returned address. The given
// authority issues its certificate, for 127.0.0.1. TLS clients also need a certificate from
// this authority. args are further options.
func RedisTLS(t testing.TB, authority *Authority, args ...string) (r *Redis, addr string) {
	t.Helper()
	addr = OwnAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	certificate, key := authority.Issue(t, "127.0.0.1")
	dir := t.TempDir()
	options := []string{"--tls-port", port, "--tls-auth-clients", "yes"}
	for option, content := range map[string][]byte{
		"--tls-cert-file": certificate, "--tls-key-file": key, "--tls-ca-cert-file": authority.PEM(),
	} {
		file := filepath.Join(dir, option)
		OK(t, os.WriteFile(file, content, 0o600))
		options = append(options, option, file)
	}
	return RedisServer(t, append(options, args...)...), addr
}
