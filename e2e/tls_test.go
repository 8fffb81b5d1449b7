package e2e

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// identity is a directory with what one side of TLS shows and trusts: tls.crt,
// tls.key and ca.crt.
type identity string

// newIdentity makes an identity. Without issuer it has nothing to show.
func newIdentity(t *testing.T, issuer *testenv.Authority, trusted []byte, names ...string) identity {
	t.Helper()
	i := identity(t.TempDir())
	i.trust(t, trusted)
	if issuer != nil {
		i.show(t, issuer, names...)
	}
	return i
}

func (i identity) file(name string) string { return filepath.Join(string(i), name) }

// trust replaces the authorities.
func (i identity) trust(t *testing.T, authorities []byte) {
	t.Helper()
	replaceFile(t, i.file("ca.crt"), string(authorities))
}

// show replaces the certificate and its key.
func (i identity) show(t *testing.T, issuer *testenv.Authority, names ...string) {
	t.Helper()
	certificate, key := issuer.Issue(t, names...)
	replaceFile(t, i.file("tls.crt"), string(certificate))
	replaceFile(t, i.file("tls.key"), string(key))
}

// startTLSEnvoy starts an Envoy that speaks TLS with Weir. With a certificate it
// shows that.
func startTLSEnvoy(t *testing.T, w *weir, i identity) *envoy {
	t.Helper()
	shown := ""
	if _, err := os.Stat(i.file("tls.crt")); err == nil {
		shown = fmt.Sprintf("tls_certificates: [{certificate_chain: {filename: %s}, private_key: {filename: %s}}]", i.file("tls.crt"), i.file("tls.key"))
	}
	return runEnvoy(t, gateway{cluster: fmt.Sprintf(`
transport_socket:
  name: envoy.transport_sockets.tls
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
    sni: weir.example
    common_tls_context:
      validation_context:
        trusted_ca: {filename: %s}
        match_typed_subject_alt_names: [{san_type: DNS, matcher: {exact: weir.example}}]
      %s
`, i.file("ca.crt"), shown)}.bootstrap(t, w.grpc))
}

// Envoy and Weir authenticate each other; a client that is not the Envoy that Weir
// expects gets no answer, and files that are replaced are used without restart.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	testenv.Envoy(t)
	awayFromMidnight(t)
	const name = "spiffe://mesh/ns/gateway/sa/envoy"
	before, after := testenv.NewAuthority(t), testenv.NewAuthority(t)
	both := append(before.PEM(), after.PEM()...)
	server := newIdentity(t, before, before.PEM(), "weir.example")
	w := startWeir(t, writeRules(t, userRules(2)), append(documentedTLS(t, server), "GRPC_MAX_CONNECTION_AGE=1s")...)

	trusted := startTLSEnvoy(t, w, newIdentity(t, before, both, name))
	trusted.want("/", "x-user: alice", 200, 200, 429)
	renewed := startTLSEnvoy(t, w, newIdentity(t, after, both, name))
	for what, stranger := range map[string]*envoy{
		"without a certificate":                     startTLSEnvoy(t, w, newIdentity(t, nil, both)),
		"with another name in its certificate":      startTLSEnvoy(t, w, newIdentity(t, before, both, "spiffe://mesh/ns/gateway/sa/other")),
		"with a certificate of another authority":   renewed,
		"that trusts another authority than Weir's": startTLSEnvoy(t, w, newIdentity(t, before, after.PEM(), name)),
	} {
		if status := stranger.ask("/", "x-user: bob").status; status != 500 {
			t.Errorf("an Envoy %s got %d, want 500", what, status)
		}
	}

	// The certificate is replaced while Envoy asks.
	server.show(t, after, "weir.example")
	testenv.Eventually(t, func() error {
		trusted.want("/", "x-user: alice", 429)
		issuer, err := issuerOf(w.grpc)
		if err == nil && issuer != after.Name() {
			err = fmt.Errorf("it is of %s", issuer)
		}
		return err
	})
	// The authority is replaced: the Envoy that was a stranger takes over.
	becomes := func(e *envoy, status int) {
		t.Helper()
		testenv.Becomes(t, "status", status, func() int { return e.ask("/", "x-user: alice").status })
	}
	server.trust(t, both)
	becomes(renewed, 429)
	server.trust(t, after.PEM())
	becomes(trusted, 500)
	renewed.want("/", "x-user: alice", 429)
}

// documentedTLS are the settings that docs/operations.md shows, with the files of an
// identity.
func documentedTLS(t *testing.T, i identity) (env []string) {
	t.Helper()
	block := documentedBlock(t, "docs/operations.md", "GRPC_SERVER_USE_TLS=true")
	for _, name := range []string{"GRPC_SERVER_TLS_CERT", "GRPC_SERVER_TLS_KEY", "GRPC_CLIENT_TLS_CACERT", "GRPC_CLIENT_TLS_SAN"} {
		if !strings.Contains(block, name+"=") {
			t.Fatalf("docs/operations.md does not show %s", name)
		}
	}
	for line := range strings.SplitSeq(block, "\n") {
		setting, _, _ := strings.Cut(line, " ") // a comment may follow
		env = append(env, strings.ReplaceAll(setting, "=/tls", "="+string(i)))
	}
	return env
}

// issuerOf returns who issued the certificate that a listener shows.
func issuerOf(addr string) (string, error) {
	var issuer string
	conn, err := tls.Dial("tcp", addr, &tls.Config{
		InsecureSkipVerify: true, // to look at it is all that is wanted
		VerifyConnection: func(state tls.ConnectionState) error {
			issuer = state.PeerCertificates[0].Issuer.CommonName
			return nil
		},
	})
	if err == nil {
		conn.Close()
	}
	return issuer, err
}
