package redis

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"testing"

	"weir/internal/limiter/redis/conn"
	"weir/internal/testenv"
)

// clientOf returns the configuration of a client that trusts an authority and, if issuer is not
// nil, has a certificate of that issuer.
func clientOf(t *testing.T, trusted, issuer *testenv.Authority) *tls.Config {
	t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(trusted.PEM())
	if issuer != nil {
		pair := testenv.Must(tls.X509KeyPair(issuer.Issue(t, "weir")))(t)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// TestRedisOverTLS replaces the configuration between connections. Each connection uses the
// latest one, without a restart.
func TestRedisOverTLS(t *testing.T) {
	ours, theirs := testenv.NewAuthority(t), testenv.NewAuthority(t)
	_, addr := testenv.RedisTLS(t, ours)
	var current atomic.Pointer[tls.Config]
	s := open(t, Options{Main: Server{Addr: addr, TLS: current.Load, Timeout: long}})
	for _, c := range []struct {
		name   string
		config *tls.Config
		fails  bool
		names  bool // whether the error names the authority of Redis
	}{
		{"the authorities of the system", new(tls.Config), true, true},
		{"an authority that did not issue the server's certificate", clientOf(t, theirs, ours), true, true},
		{"no certificate of the client", clientOf(t, ours, nil), true, false},
		{"a client's certificate of another authority", clientOf(t, ours, theirs), true, false},
		{"the right ones", clientOf(t, ours, ours), false, false},
	} {
		current.Store(c.config)
		if !c.fails {
			mustAsk(t, s, "k", perYear)
			continue
		}
		// Redis' reason for the refusal may be lost when the connection ends.
		var unknown x509.UnknownAuthorityError
		if err := mustFail(t, s); conn.Classify(err) != conn.KindConnection || errors.As(err, &unknown) != c.names {
			t.Errorf("%s: error %v of kind %s, want kind %s", c.name, err, conn.Classify(err), conn.KindConnection)
		}
	}
}
