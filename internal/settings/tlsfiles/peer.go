package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

func serverConfig(m material, peerSAN string) *tls.Config {
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: m.certificates,
		// A client that comes back is checked against the files of today.
		SessionTicketsDisabled: true,
	}
	if m.authorities == nil {
		return config
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.ClientCAs = m.authorities
	if peerSAN != "" {
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return holds(state.PeerCertificates[0], peerSAN)
		}
	}
	return config
}

func clientConfig(m material, opts Options) *tls.Config {
	config := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: m.certificates,
		RootCAs:      m.authorities,
	}
	if opts.PeerSAN == "" && !opts.SkipHostnameVerification {
		return config
	}
	// crypto/tls checks the host or nothing at all.
	config.InsecureSkipVerify = true
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if err := trusted(state.PeerCertificates, m.authorities); err != nil || opts.PeerSAN == "" {
			return err
		}
		return holds(state.PeerCertificates[0], opts.PeerSAN)
	}
	return config
}

// trusted reports whether a server's certificate, the first of the chain, comes
// from one of the authorities, or of those of the system if that is nil.
func trusted(chain []*x509.Certificate, authorities *x509.CertPool) error {
	intermediates := x509.NewCertPool()
	for _, certificate := range chain[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: authorities, Intermediates: intermediates})
	return err
}

// holds reports whether a certificate holds a subject alternative name. What the name
// looks like decides what kind of name it is: with a scheme it is a URI, with an @
// an email address, and otherwise a DNS name or an IP address.
func holds(certificate *x509.Certificate, san string) error {
	var held bool
	switch {
	case strings.Contains(san, ":") && net.ParseIP(san) == nil:
		held = slices.ContainsFunc(certificate.URIs, func(u *url.URL) bool { return u.String() == san })
	case strings.Contains(san, "@"):
		held = slices.Contains(certificate.EmailAddresses, san)
	default:
		held = certificate.VerifyHostname(san) == nil
	}
	if held {
		return nil
	}
	return fmt.Errorf("the certificate does not hold the name %q, but %v %v %v %v",
		san, certificate.DNSNames, certificate.IPAddresses, certificate.URIs, certificate.EmailAddresses)
}
