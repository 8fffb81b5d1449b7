package e2e

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// identity is a directory with the TLS files of a client or server: its certificate tls.crt
// with tls.key, and the authorities that it trusts in ca.crt.
type identity string

// newIdentity creates an identity. If issuer is nil, it has no certificate.
func newIdentity(t *testing.T, issuer *testenv.Authority, trusted []byte, names ...string) identity {
	t.Helper()
	i := identity(t.TempDir())
	replaceFile(t, i.file("ca.crt"), string(trusted))
	if issuer != nil {
		i.show(t, issuer, names...)
	}
	return i
}

func (i identity) file(name string) string { return filepath.Join(string(i), name) }

// show replaces the certificate and its key by new ones from issuer.
func (i identity) show(t *testing.T, issuer *testenv.Authority, names ...string) {
	t.Helper()
	certificate, key := issuer.Issue(t, names...)
	replaceFile(t, i.file("tls.crt"), string(certificate))
	replaceFile(t, i.file("tls.key"), string(key))
}

// cluster returns the fields of an Envoy cluster that speaks TLS and sends the certificate, if
// there is one. The server's certificate must contain name, unless name is empty.
func (i identity) cluster(name string) string {
	var sni, expected, shown string
	if name != "" {
		sni = "sni: " + name
		expected = "match_typed_subject_alt_names: [{san_type: DNS, matcher: {exact: " + name + "}}]"
	}
	if _, err := os.Stat(i.file("tls.crt")); err == nil {
		shown = fmt.Sprintf("tls_certificates: [{certificate_chain: {filename: %s}, private_key: {filename: %s}}]", i.file("tls.crt"), i.file("tls.key"))
	}
	return fmt.Sprintf(`
transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    %s
    common_tls_context:
      validation_context:
        trusted_ca: {filename: %s}
        %s
      %s
`, sni, i.file("ca.crt"), expected, shown)
}

// Envoy and Weir authenticate each other. Other clients than the expected Envoy get no answer.
// Weir uses replaced files without a restart.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	awayFromMidnight(t)
	const name = "spiffe://mesh/ns/gateway/sa/envoy"
	before, after := testenv.NewAuthority(t), testenv.NewAuthority(t)
	both := append(before.PEM(), after.PEM()...)
	server := newIdentity(t, before, before.PEM(), "weir.example")
	w := startWeir(t, writeRules(t, userRules(2)), append(documentedTLS(t, server), "GRPC_MAX_CONNECTION_AGE=1s")...)

	speak := func(i identity) *envoy {
		return runEnvoy(t, gateway{cluster: i.cluster("weir.example")}.bootstrap(t, w.grpc))
	}
	trusted := speak(newIdentity(t, before, both, name))
	trusted.want("/", "x-user: alice", 200, 200, 429)
	renewed := speak(newIdentity(t, after, both, name))
	for what, stranger := range map[string]*envoy{
		"without a certificate":                     speak(newIdentity(t, nil, both)),
		"with another name in its certificate":      speak(newIdentity(t, before, both, "spiffe://mesh/ns/gateway/sa/other")),
		"with a certificate of another authority":   renewed,
		"that trusts another authority than Weir's": speak(newIdentity(t, before, after.PEM(), name)),
	} {
		testenv.Equal(t, stranger.ask("/", "x-user: bob").status, 500, "status for an Envoy %s", what)
	}

	// The certificate is replaced while Envoy sends requests.
	server.show(t, after, "weir.example")
	testenv.Becomes(t, "issuer", after.Name(), func() string {
		trusted.want("/", "x-user: alice", 429)
		return issuerOf(t, w.grpc)
	})
	// The authority is replaced, so Weir accepts renewed and finally refuses trusted.
	becomes := func(e *envoy, status int) {
		t.Helper()
		testenv.Becomes(t, "status", status, func() int { return e.ask("/", "x-user: alice").status })
	}
	replaceFile(t, server.file("ca.crt"), string(both))
	becomes(renewed, 429)
	replaceFile(t, server.file("ca.crt"), string(after.PEM()))
	becomes(trusted, 500)
	renewed.want("/", "x-user: alice", 429)
}

// documentedTLS returns the settings in docs/operations.md, with the files of an identity:
// GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY, GRPC_CLIENT_TLS_CACERT and GRPC_CLIENT_TLS_SAN.
func documentedTLS(t *testing.T, i identity) (env []string) {
	t.Helper()
	for line := range strings.SplitSeq(documentedBlock(t, "docs/operations.md", "GRPC_SERVER_USE_TLS=true"), "\n") {
		setting, _, _ := strings.Cut(line, " ") // a comment may follow
		env = append(env, strings.ReplaceAll(setting, "=/tls", "="+string(i)))
	}
	return env
}

// issuerOf returns the issuer of the certificate of a listener.
func issuerOf(t *testing.T, addr string) (issuer string) {
	t.Helper()
	// The connection always fails, because VerifyConnection returns an error.
	_, _ = tls.Dial("tcp", addr, &tls.Config{
		InsecureSkipVerify: true, // the test only reads the certificate
		VerifyConnection: func(state tls.ConnectionState) error {
			issuer = state.PeerCertificates[0].Issuer.CommonName
			return errors.New("it has been seen")
		},
	})
	return issuer
}
