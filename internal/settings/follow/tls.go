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

// TLSOptions say which files make up one side of TLS and what is asked of the
// other. Paths that are empty are not used.
type TLSOptions struct {
	// Server tells a server, which speaks TLS 1.2 or later, from a client.
	Server bool
	// CertFile and KeyFile hold the certificate shown to the peer, with
	// intermediate ones after it, and its key. A server needs them.
	CertFile, KeyFile string
	// CAFile holds the certificates of the authorities that the peer's must come
	// from. Without it a server asks for no certificate, and a client trusts the
	// authorities of the system.
	CAFile string
	// PeerSAN is a subject alternative name that the peer's certificate must
	// hold: a DNS name, an IP address, a URI or an email address. For a client it
	// takes the place of the host that is dialled; for a server it needs CAFile.
	PeerSAN string
	// SkipHostnameVerification makes a client accept any name in the server's
	// certificate, which must still come from a trusted authority.
	SkipHostnameVerification bool
	// Logger hears of files that change and of gRPC clients that are refused.
	Logger *slog.Logger
	// Refused, if not nil, is called with one of Reasons when a gRPC client is refused.
	Refused func(reason string)
}

// tlsEvery is how often the files are read. Tests shorten it.
var tlsEvery = 5 * time.Second

// TLS is one side of TLS. It follows its files until it is closed: what they hold is a
// text, whose check makes the next configuration. A connection keeps what it began with.
//
// The file watcher of grpc-go is not used: it writes the private key into its
// log when that does not match the certificate, which every replacement of two
// files may look like for a moment; it also wants both in one directory.
type TLS struct {
	opts    TLSOptions
	files   *Text
	current atomic.Pointer[tls.Config]
	refused map[string]*rate.Sometimes // warn of clients, by reason
}

// OpenTLS reads the files, of which a client may have none. The error names the file that is
// missing or bad.
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
	if len(names) > 0 {
		c.files.Start()
	}
	return c, nil
}

// read returns what the files hold: certificate, key and authorities, with a zero byte,
// which none of them may hold, between two.
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

// use makes the configuration of what read returned.
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
		config.SessionTicketsDisabled = true // a client that comes back is checked against the files of today
		if authorities != nil {
			config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, authorities
		}
		if o.PeerSAN != "" {
			config.VerifyConnection = func(state tls.ConnectionState) error { return holds(state.PeerCertificates[0], o.PeerSAN, true) }
		}
	case o.PeerSAN != "" || o.SkipHostnameVerification:
		config.InsecureSkipVerify = true // crypto/tls checks the host or nothing at all
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

// TLS is the configuration as of the newest good files, for the next connection. It does not
// change, and must not be written to.
func (c *TLS) TLS() *tls.Config { return c.current.Load() }

// Close ends the readings. TLS goes on returning the last configuration.
func (c *TLS) Close() { c.files.Close() }

// errName is the error of a certificate without the required name.
type errName struct{ error }

// holds returns an error unless a certificate holds a subject alternative name. What the name
// looks like decides what kind of name it is: with a scheme it is a URI, with an @
// an email address, and otherwise a DNS name or an IP address. A wildcard is no name of a
// client.
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

// Credentials are for a gRPC server or client. Each connection is made with the
// newest good files.
func (c *TLS) Credentials() credentials.TransportCredentials {
	return fresh{credentials.NewTLS(c.TLS()), c}
}

// fresh asks for the configuration with each handshake.
type fresh struct {
	credentials.TransportCredentials // for what does not depend on the files
	config                           *TLS
}

func (f fresh) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(f.config.TLS()).ClientHandshake(ctx, authority, conn)
}

// Reasons are the reasons for which gRPC clients are refused.
var Reasons = []string{"no_certificate", "certificate", "name", "not_tls", "timeout", "by_client", "other"}

// reason returns the one of Reasons for the error of a handshake.
func reason(err error) string {
	if _, ok := errors.AsType[errName](err); ok {
		return "name"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "certificate"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "not_tls"
	}
	op, ok := errors.AsType[*net.OpError](err)
	switch {
	case ok && op.Op == "remote error":
		return "by_client"
	case ok && op.Timeout():
		return "timeout"
	case err.Error() == "tls: client didn't provide a certificate": // crypto/tls has no type for it
		return "no_certificate"
	}
	return "other"
}

// ServerHandshake says why a client could not connect, which clients themselves
// rarely do. There is one warning a minute for each reason, because clients try again and
// again, and none of those that only look whether somebody listens.
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
