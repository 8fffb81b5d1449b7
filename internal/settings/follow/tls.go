package follow

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
)

// TLSOptions configure one side of TLS connections. Empty paths are not used.
type TLSOptions struct {
	// Server selects the server side.
	Server bool
	// CertFile has the certificate to present to the peer, followed by intermediate certificates.
	// KeyFile has the certificate's key. A server needs both.
	CertFile, KeyFile string
	// CAFile has the certificates of the authorities that must have signed the peer's certificate.
	// Without it, a server requests no certificate, and a client trusts the system's authorities.
	CAFile string
	// PeerSAN is a subject alternative name that the peer's certificate must have: a DNS name, an
	// IP address, a URI or an email address. A client checks it instead of the dialled host. On a
	// server it needs CAFile.
	PeerSAN string
	// SkipHostnameVerification lets a client accept any name in the server's certificate, which
	// still needs a trusted authority.
	SkipHostnameVerification bool
	// Logger receives changes of files and refusals of gRPC clients.
	Logger *slog.Logger
	// Refused, if not nil, is called with one of Reasons when a gRPC client is refused.
	Refused func(reason string)
}

// tlsEvery is the interval between readings. Tests shorten it.
var tlsEvery = 5 * time.Second

// TLS is one side of TLS connections. Run reads its files again at an interval: their contents are a
// Text whose Check makes the next configuration. Open connections keep their configuration.
//
// The file watcher of grpc-go is not used, because it logs a private key that does not match the
// certificate, which happens for a moment when two files are replaced. It also needs both files in
// one directory.
type TLS struct {
	opts    TLSOptions
	files   *Text
	current atomic.Pointer[tls.Config]
	refused map[string]*rate.Sometimes // limits of warnings about clients, by reason
}

// OpenTLS reads the files. The error names a missing or invalid file.
func OpenTLS(opts TLSOptions) (*TLS, error) {
	c := &TLS{opts: opts, refused: map[string]*rate.Sometimes{}}
	for _, reason := range Reasons {
		c.refused[reason] = &rate.Sometimes{Interval: time.Minute}
	}
	text, err := c.read(context.Background())
	if err == nil {
		err = c.use(text)
	}
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc([]string{opts.CertFile, opts.KeyFile, opts.CAFile}, func(name string) bool { return name == "" })
	c.files = newText(Options{
		Setting: strings.Join(names, ", "), Read: c.read, Check: c.use, Every: tlsEvery, Logger: opts.Logger,
	}, text)
	return c, nil
}

// read returns the contents of the files of the certificate, the key and the authorities, separated by
// zero bytes, which no valid file contains.
func (c *TLS) read(context.Context) (string, error) {
	var contents [3]string
	for i, file := range []string{c.opts.CertFile, c.opts.KeyFile, c.opts.CAFile} {
		if file == "" {
			continue
		}
		content, err := read(file, maxPEM)
		if err != nil {
			return "", err
		}
		contents[i] = string(content)
	}
	return strings.Join(contents[:], "\x00"), nil
}

// use makes and stores the configuration for a text that read returned.
func (c *TLS) use(text string) error {
	o, contents := c.opts, strings.SplitN(text, "\x00", 3)
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CertFile != "" {
		pair, err := tls.X509KeyPair([]byte(contents[0]), []byte(contents[1]))
		if err != nil {
			return fmt.Errorf("certificate %s with key %s: %w", o.CertFile, o.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	var authorities *x509.CertPool
	if o.CAFile != "" {
		authorities = x509.NewCertPool()
		if !authorities.AppendCertsFromPEM([]byte(contents[2])) {
			return fmt.Errorf("authorities %s: no PEM certificate", o.CAFile)
		}
	}
	switch {
	case o.Server:
		config.SessionTicketsDisabled = true // a resumed session would skip the check against new files
		if authorities != nil {
			config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, authorities
		}
		if o.PeerSAN != "" {
			config.VerifyConnection = func(state tls.ConnectionState) error { return holds(state.PeerCertificates[0], o.PeerSAN, true) }
		}
	case o.PeerSAN != "" || o.SkipHostnameVerification:
		config.InsecureSkipVerify = true // crypto/tls cannot check a certificate without a host name
		config.VerifyConnection = func(state tls.ConnectionState) error {
			chain, intermediates := state.PeerCertificates, x509.NewCertPool()
			for _, certificate := range chain[1:] {
				intermediates.AddCert(certificate)
			}
			if _, err := chain[0].Verify(x509.VerifyOptions{Roots: authorities, Intermediates: intermediates}); err != nil || o.PeerSAN == "" {
				return err
			}
			return holds(chain[0], o.PeerSAN, false)
		}
	}
	config.RootCAs = authorities
	c.current.Store(config)
	return nil
}

// TLS returns the configuration of the last valid files, for the next connection. The caller must
// not change it.
func (c *TLS) TLS() *tls.Config { return c.current.Load() }

// Problem returns the names and the error of changed files that are not used, or "" if there are none.
func (c *TLS) Problem() string { return c.files.Problem() }

// Run reads the files at an interval until ctx is done. Then TLS still returns the last configuration.
func (c *TLS) Run(ctx context.Context) { c.files.Run(ctx) }

// errName is the error of a certificate without the required name.
type errName struct{ error }

// holds returns an error unless the certificate has the subject alternative name san. A san with a
// scheme is a URI, a san with an @ is an email address, and any other san is a DNS name or an IP
// address. If the certificate is a client's, its wildcards match no name.
func holds(certificate *x509.Certificate, san string, client bool) error {
	var held bool
	switch {
	case strings.Contains(san, ":") && net.ParseIP(san) == nil:
		held = slices.ContainsFunc(certificate.URIs, func(u *url.URL) bool { return u.String() == san })
	case strings.Contains(san, "@"):
		held = slices.Contains(certificate.EmailAddresses, san)
	case client && net.ParseIP(san) == nil:
		held = slices.ContainsFunc(certificate.DNSNames, func(name string) bool { return strings.EqualFold(name, san) })
	default:
		held = certificate.VerifyHostname(san) == nil
	}
	if held {
		return nil
	}
	return errName{fmt.Errorf("the certificate does not have the name %q, but %v %v %v %v",
		san, certificate.DNSNames, certificate.IPAddresses, certificate.URIs, certificate.EmailAddresses)}
}

// Credentials returns credentials for a gRPC server or client. Each handshake uses the last valid
// files.
func (c *TLS) Credentials() credentials.TransportCredentials {
	return fresh{credentials.NewTLS(c.TLS()), c}
}

// fresh reads the configuration for each handshake.
type fresh struct {
	credentials.TransportCredentials // implements methods that do not depend on the files
	config                           *TLS
}

func (f fresh) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(f.config.TLS()).ClientHandshake(ctx, authority, conn)
}

// Reasons are the reasons for refusing gRPC clients.
var Reasons = []string{"no_certificate", "certificate", "name", "not_tls", "timeout", "by_client", "other"}

// reason returns the element of Reasons for the error of a handshake.
func reason(err error) string {
	var op *net.OpError
	switch {
	case errors.As(err, new(errName)):
		return "name"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "certificate"
	case errors.As(err, new(tls.RecordHeaderError)):
		return "not_tls"
	case errors.As(err, &op) && op.Op == "remote error":
		return "by_client"
	case op != nil && op.Timeout():
		return "timeout"
	case err.Error() == "tls: client didn't provide a certificate": // crypto/tls has no type for it
		return "no_certificate"
	default:
		return "other"
	}
}

// ServerHandshake logs why a client could not connect, because clients rarely log it. There is at most
// one warning a minute for each reason, because clients retry, and no warning about clients that
// only check whether the port is open.
func (f fresh) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, info, err := credentials.NewTLS(f.config.TLS()).ServerHandshake(conn)
	if err != nil {
		level := slog.LevelDebug
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			reason := reason(err)
			f.config.refused[reason].Do(func() { level = slog.LevelWarn })
			if f.config.opts.Refused != nil {
				f.config.opts.Refused(reason)
			}
		}
		f.config.opts.Logger.Log(context.Background(), level, "TLS client rejected", "client", conn.RemoteAddr(), "err", err)
	}
	return secure, info, err
}

func (f fresh) Clone() credentials.TransportCredentials { return f }
