package follow

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/testenv"
)

// patience is the maximum time that a test waits, even on a busy machine.
const patience = time.Minute

// side is a directory with the files of one side of a TLS connection.
type side struct {
	t    *testing.T
	dir  string
	opts TLSOptions
	log  testenv.Log
}

// newSide writes a certificate for names from issuer, and the certificate of the authority that issues
// the peers' certificates. If issuer or peers is nil, its file is omitted.
func newSide(t *testing.T, issuer, peers *testenv.Authority, names ...string) *side {
	t.Helper()
	s := &side{t: t, dir: t.TempDir()}
	s.opts = TLSOptions{Logger: slog.New(slog.NewTextHandler(&s.log, nil))}
	if issuer != nil {
		certificate, key := issuer.Issue(t, names...)
		s.opts.CertFile, s.opts.KeyFile = s.write("tls.crt", certificate), s.write("tls.key", key)
	}
	if peers != nil {
		s.opts.CAFile = s.write("ca.crt", peers.PEM())
	}
	return s
}

func (s *side) write(name string, content []byte) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	half := path + ".new"
	testenv.OK(s.t, errors.Join(os.WriteFile(half, content, 0o600), os.Rename(half, path)))
	return path
}

// client opens the files for a client.
func (s *side) client() *TLS {
	s.t.Helper()
	c := testenv.Must(OpenTLS(s.opts))(s.t)
	s.t.Cleanup(testenv.Running(c.Run))
	return c
}

// server opens the files for a server.
func (s *side) server() *TLS {
	s.t.Helper()
	s.opts.Server = true
	return s.client()
}

// handshake connects the client to host over a socket, and returns the errors of both sides.
func handshake(t *testing.T, server, client *tls.Config, host string) (serverErr, clientErr error) {
	t.Helper()
	listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			done <- err
			return
		}
		defer conn.Close()
		s := tls.Server(conn, server)
		if err = s.Handshake(); err == nil {
			_, err = s.Write([]byte("."))
		}
		done <- err
	}()
	conn := testenv.Must(net.Dial("tcp", listener.Addr().String()))(t)
	defer conn.Close()
	testenv.OK(t, conn.SetDeadline(time.Now().Add(patience)))
	client = client.Clone()
	client.ServerName = host
	if len(client.Certificates) > 0 { // by default Go sends only a certificate that the server accepts
		client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &client.Certificates[0], nil }
	}
	c := tls.Client(conn, client)
	// With TLS 1.3, only the first read tells a client that the server refused it.
	_, clientErr = c.Read(make([]byte, 1))
	conn.Close()
	return <-done, clientErr
}

func TestPeers(t *testing.T) {
	ours, theirs := testenv.NewAuthority(t), testenv.NewAuthority(t)
	const spiffe = "spiffe://mesh/ns/gateway/sa/envoy"
	client := func(issuer *testenv.Authority, change func(*TLSOptions), names ...string) *side {
		s := newSide(t, issuer, ours, names...)
		if change != nil {
			change(&s.opts)
		}
		return s
	}
	san := func(name string) func(*TLSOptions) { return func(o *TLSOptions) { o.PeerSAN = name } }
	skip := func(o *TLSOptions) { o.SkipHostnameVerification = true }
	strangers := func(o *TLSOptions) { o.CAFile = newSide(t, nil, theirs).opts.CAFile }

	for _, test := range []struct {
		name      string
		authority *testenv.Authority // of the clients
		san       string             // the required name of clients
		client    *side
		host      string
		old       bool
		server    string // the error of the server, or ""
		want      string // the error of the client
	}{
		{name: "no client certificates asked for", client: client(nil, nil)},
		{name: "client of the authority", authority: ours, client: client(ours, nil)},
		{name: "client without certificate", authority: ours, client: client(nil, nil), server: "didn't provide a certificate", want: "certificate required"},
		{name: "client of another authority", authority: ours, client: client(theirs, nil), server: "unknown authority", want: "unknown certificate authority"},
		{name: "SAN is a DNS name", authority: ours, san: "envoy.example", client: client(ours, nil, "other.example", "envoy.example")},
		{name: "wrong SAN", authority: ours, san: spiffe, client: client(ours, nil, "envoy.example"), server: `does not have the name "` + spiffe + `", but [envoy.example]`, want: "bad certificate"},

		{name: "server of another authority", client: client(nil, strangers), server: "bad certificate", want: "unknown authority"},
		{name: "server of no authority of the system", client: client(nil, func(o *TLSOptions) { o.CAFile = "" }), server: "bad certificate", want: "unknown authority"},
		{name: "server under another name", client: client(nil, nil), host: "other.example", server: "bad certificate", want: "not other.example"},
		{name: "TLS 1.1", client: client(nil, nil), old: true, server: "unsupported versions", want: "protocol version not supported"},
		{name: "host name skipped", client: client(nil, skip), host: "other.example"},
		{name: "server's SAN instead of the host", client: client(nil, san("weir.example")), host: "other.example"},
		{name: "server without the SAN", client: client(nil, san(spiffe)), server: "bad certificate", want: "does not have the name"},
		{name: "server with the SAN of another authority", client: client(nil, func(o *TLSOptions) { o.PeerSAN = "weir.example"; strangers(o) }), server: "bad certificate", want: "unknown authority"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSide(t, ours, test.authority, "weir.example", "127.0.0.1")
			s.opts.PeerSAN = test.san
			config := test.client.client().TLS().Clone()
			if test.old {
				config.MinVersion, config.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
			}
			serverErr, clientErr := handshake(t, s.server().TLS(), config, cmp.Or(test.host, "weir.example"))
			wantError(t, "server", serverErr, test.server)
			wantError(t, "client", clientErr, test.want)
		})
	}
}

func wantError(t *testing.T, who string, err error, want string) {
	t.Helper()
	if want == "" && err == nil || want != "" && err != nil && strings.Contains(err.Error(), want) {
		return
	}
	t.Errorf("%s: got error %v, want %q", who, err, want)
}

func TestBadFiles(t *testing.T) {
	ours := testenv.NewAuthority(t)
	certificate, key := ours.Issue(t, "weir.example")
	_, otherKey := ours.Issue(t, "weir.example")
	files := newSide(t, nil, nil)
	crt, pem, other := files.write("tls.crt", certificate), files.write("tls.key", key), files.write("other.key", otherKey)
	empty, absent, dir := files.write("empty", nil), filepath.Join(files.dir, "absent"), files.dir

	for _, test := range []struct {
		name string
		opts TLSOptions
		want string // %s stands for the directory
	}{
		{"no certificate file", TLSOptions{Server: true, CertFile: absent, KeyFile: pem}, "open %s/absent: no such file or directory"},
		{"no key file", TLSOptions{Server: true, CertFile: crt, KeyFile: absent}, "open %s/absent: no such file or directory"},
		{"no CA file", TLSOptions{CAFile: absent}, "open %s/absent: no such file or directory"},
		{"a directory", TLSOptions{CAFile: dir}, "read %s: it is not a regular file; use a regular file or a link to a regular file"},
		{"key of another certificate", TLSOptions{Server: true, CertFile: crt, KeyFile: other}, "certificate %[1]s/tls.crt with key %[1]s/other.key: tls: private key does not match public key"},
		{"empty certificate", TLSOptions{Server: true, CertFile: empty, KeyFile: pem}, "certificate %[1]s/empty with key %[1]s/tls.key: tls: failed to find any PEM data in certificate input"},
		{"key instead of certificate", TLSOptions{Server: true, CertFile: pem, KeyFile: pem}, "certificate %[1]s/tls.key with key %[1]s/tls.key: tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched"},
		{"no authority in its file", TLSOptions{CAFile: pem}, "authorities %s/tls.key: no PEM certificate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := test.want
			if strings.Contains(want, "%") {
				want = fmt.Sprintf(want, dir)
			}
			if _, err := OpenTLS(test.opts); err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// TestSessionsAreNotResumed connects again with the session of an earlier connection. In a resumed
// session, a client need not present its certificate.
func TestSessionsAreNotResumed(t *testing.T) {
	ours := testenv.NewAuthority(t)
	server := newSide(t, ours, ours, "weir.example").server().TLS()
	client := newSide(t, ours, ours, "envoy.example").client().TLS().Clone()
	client.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	client.VerifyConnection = func(state tls.ConnectionState) error {
		if state.DidResume {
			t.Error("a session was resumed")
		}
		return nil
	}
	for range 2 { // the second time with a session
		if err, _ := handshake(t, server, client, "weir.example"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadReplacementIsLeftOut(t *testing.T) {
	ours := testenv.NewAuthority(t)
	_, otherKey := ours.Issue(t)
	s := newSide(t, ours, nil, "weir.example")
	server := s.server()
	first := server.TLS()
	s.write("tls.key", otherKey)
	s.log.WaitFor(t, "private key does not match public key")
	if server.TLS() != first || strings.Contains(s.log.String(), strings.Split(string(otherKey), "\n")[1]) {
		t.Errorf("the configuration has changed, or the log holds the key:\n%s", &s.log)
	}
}

// TestRefusedClients refuses two clients for each reason. Both are counted, and each reason is logged
// once.
func TestRefusedClients(t *testing.T) {
	ours, theirs := testenv.NewAuthority(t), testenv.NewAuthority(t)
	s := newSide(t, ours, ours, "weir.example")
	refused := map[string]int{}
	s.opts.PeerSAN, s.opts.Refused = "envoy.mesh", func(reason string) { refused[reason]++ }
	transport := s.server().Credentials()
	dial := func(client func(net.Conn)) {
		t.Helper()
		listener := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer listener.Close()
		var clients sync.WaitGroup
		clients.Go(func() {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err == nil {
				client(conn)
				conn.Close()
			}
		})
		conn := testenv.Must(listener.Accept())(t)
		if _, _, err := transport.ServerHandshake(conn); err == nil {
			t.Error("let in")
		}
		conn.Close()
		clients.Wait()
	}
	// with returns a client that sends its certificate whatever authorities the server trusts.
	with := func(issuer, peers *testenv.Authority, protocol string, names ...string) func(net.Conn) {
		config := newSide(t, issuer, peers, names...).client().TLS().Clone()
		config.ServerName, config.NextProtos = "weir.example", []string{protocol}
		if certificates := config.Certificates; len(certificates) > 0 {
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificates[0], nil }
		}
		return func(conn net.Conn) { _, _ = tls.Client(conn, config).Read(make([]byte, 1)) } // returns when it is refused
	}
	for _, step := range []struct {
		reason string // or "" if the client is not refused
		client func(net.Conn)
	}{
		{"", func(net.Conn) {}},
		{"no_certificate", with(nil, ours, "h2")},
		{"certificate", with(theirs, ours, "h2", "envoy.mesh")},
		{"name", with(ours, ours, "h2", "other.mesh")},
		{"name", with(ours, ours, "h2", "*.mesh")},
		{"not_tls", func(conn net.Conn) { fmt.Fprint(conn, "PRI * HTTP/2.0\r\n\r\n"); _, _ = conn.Read(make([]byte, 1)) }},
		{"by_client", with(ours, theirs, "h2", "envoy.mesh")},
		{"other", with(ours, ours, "http/1.1", "envoy.mesh")},
	} {
		before := refused[step.reason]
		dial(step.client)
		dial(step.client)
		if step.reason == "" && len(refused) > 0 || step.reason != "" && refused[step.reason] != before+2 {
			t.Errorf("%q: counted %v", step.reason, refused)
		}
	}
	log := s.log.String()
	testenv.Equal(t, strings.Count(log, "TLS client rejected"), len(Reasons)-1, "lines, of which each reason has one, of\n%s", log)
	if !strings.Contains(log, "client=127.0.0.1:") || !strings.Contains(log, "didn't provide a certificate") {
		t.Errorf("the log says neither who nor why:\n%s", log)
	}
	testenv.Equal(t, reason(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), "timeout", "a handshake by half")
}

// TestKindsOfNames has certificates in which the expected name is of the right kind or of another. An
// authority that checks only DNS names may sign any URI.
func TestKindsOfNames(t *testing.T) {
	uri := func(text string) *x509.Certificate {
		u := testenv.Must(url.Parse(text))(t)
		return &x509.Certificate{URIs: []*url.URL{u}}
	}
	dns := func(name string) *x509.Certificate { return &x509.Certificate{DNSNames: []string{name}} }
	email := func(name string) *x509.Certificate { return &x509.Certificate{EmailAddresses: []string{name}} }
	for _, test := range []struct {
		san         string
		certificate *x509.Certificate
		held        bool
	}{
		{"envoy.mesh", dns("envoy.mesh"), true},
		{"envoy.mesh", dns("Envoy.Mesh"), true},
		{"envoy.mesh", uri("envoy.mesh"), false},
		{"192.0.2.7", &x509.Certificate{IPAddresses: []net.IP{net.ParseIP("192.0.2.7")}}, true},
		{"2001:db8::7", &x509.Certificate{IPAddresses: []net.IP{net.ParseIP("2001:db8::7")}}, true},
		{"spiffe://mesh/envoy", uri("spiffe://mesh/envoy"), true},
		{"spiffe://mesh/envoy", dns("spiffe://mesh/envoy"), false},
		{"spiffe://envoy@mesh", email("spiffe://envoy@mesh"), false},
		{"envoy@mesh", email("envoy@mesh"), true},
		{"envoy@mesh", dns("envoy@mesh"), false},
	} {
		for _, client := range []bool{false, true} {
			if err := holds(test.certificate, test.san, client); (err == nil) != test.held {
				t.Errorf("%q in a certificate of %v %v %v: got %v, want it held: %v", test.san, test.certificate.DNSNames, test.certificate.EmailAddresses, test.certificate.URIs, err, test.held)
			}
		}
	}
	for client, held := range map[bool]bool{false: true, true: false} {
		if err := holds(dns("*.mesh"), "envoy.mesh", client); (err == nil) != held {
			t.Errorf("a wildcard of a client (%t): %v", client, err)
		}
	}
}
