package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"weir/internal/testenv"
)

func TestBenchTLS(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authority, stranger := testenv.NewAuthority(t), testenv.NewAuthority(t)
	ca, strangerCA := file("ca.pem", authority.PEM()), file("stranger.pem", stranger.PEM())
	certPEM, keyPEM := authority.Issue(t, "client")
	cert, key := file("cert.pem", certPEM), file("key.pem", keyPEM)
	_, otherKeyPEM := authority.Issue(t, "client")
	otherKey, none := file("other-key.pem", otherKeyPEM), filepath.Join(dir, "none.pem")
	pipe := filepath.Join(dir, "pipe.pem")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}

	// serve starts a server with a certificate for name, that asks for one of clients, or not.
	serve := func(name string, clients tls.ClientAuthType) string {
		pair, err := tls.X509KeyPair(authority.Issue(t, name))
		if err != nil {
			t.Fatal(err)
		}
		config := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: clients, ClientCAs: x509.NewCertPool()}
		config.ClientCAs.AppendCertsFromPEM(authority.PEM())
		return oracle{}.start(t, grpc.Creds(credentials.NewTLS(config)))
	}
	secure, mutual := serve("127.0.0.1", tls.NoClientCert), serve("127.0.0.1", tls.RequireAndVerifyClientCert)
	named, open := serve("limits.example", tls.NoClientCert), oracle{}.start(t)
	tests := []struct {
		name   string
		server string
		args   []string
		stderr string // none: all is well
	}{
		{"server", secure, []string{"--tls-ca=" + ca}, ""},
		{"mutual", mutual, []string{"--tls", "--tls-ca=" + ca, "--tls-cert=" + cert, "--tls-key=" + key}, ""},
		{"by name", named, []string{"--tls-ca=" + ca, "--tls-server-name=limits.example"}, ""},

		{"no certificate where one is asked for", mutual, []string{"--tls-ca=" + ca}, "no connection: "},
		{"untrusted server", secure, []string{"--tls-ca=" + strangerCA}, "certificate signed by unknown authority"},
		{"not from the system", secure, []string{"--tls"}, "failed to verify certificate: x509: "},
		{"another name", named, []string{"--tls-ca=" + ca}, "cannot validate certificate for 127.0.0.1"},
		{"plain server", open, []string{"--tls-ca=" + ca}, "no connection: it does not speak TLS: "},
		{"plain client", secure, nil, "no connection: it is no gRPC server, or one with TLS: "},

		{"no file of authorities", secure, []string{"--tls-ca=" + none}, "weir: --tls-ca: open " + none + ": "},
		{"a pipe of authorities", secure, []string{"--tls-ca=" + pipe}, "weir: --tls-ca: read " + pipe + ": it is no regular file, "},
		{"a pipe of the key", secure, []string{"--tls-cert=" + cert, "--tls-key=" + pipe}, "read " + pipe + ": it is no regular file, "},
		{"no authority", secure, []string{"--tls-ca=" + key}, "weir: --tls-ca: " + key + ": no certificate in PEM form\n"},
		{"no file of the certificate", secure, []string{"--tls-cert=" + none, "--tls-key=" + key}, "weir: --tls-cert " + none + " with --tls-key " + key + ": open " + none},
		{"another key", secure, []string{"--tls-cert=" + cert, "--tls-key=" + otherKey}, "weir: --tls-cert " + cert + " with --tls-key " + otherKey + ": tls: private key does not match public key\n"},
		{"no key", secure, []string{"--tls-cert=" + cert}, "weir: --tls-cert and --tls-key must be used together\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"bench", tt.server, "--requests=100", "--warmup=0s"}, tt.args...)
			code, stdout, stderr := callUntil(t.Context(), args...)
			if tt.stderr != "" {
				compare(t, exitUsage, nil, []string{tt.stderr}, code, stdout, stderr)
				return
			}
			compare(t, exitOK, []string{" connections with TLS, ", "ok          100  100.0 %"}, nil, code, stdout, stderr)
		})
	}
}
