package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"weir/internal/descriptors/regularfile"
)

// benchTLS says how a benchmark speaks to its servers. Unlike the server's own
// certificates, which live longer than their files, these are read once.
type benchTLS struct {
	TLS        bool   `name:"tls" help:"Connect with TLS, which the other flags of TLS do, too. The certificates of servers must come from an authority of the system, or of --tls-ca."`
	CA         string `name:"tls-ca" placeholder:"FILE" help:"Certificates of the authorities that those of servers must come from, in PEM form."`
	Cert       string `name:"tls-cert" and:"tls-pair" placeholder:"FILE" help:"Certificate to show to servers that ask for one, in PEM form, with intermediate ones after it."`
	Key        string `name:"tls-key" and:"tls-pair" placeholder:"FILE" help:"Key of that certificate, in PEM form."`
	ServerName string `name:"tls-server-name" placeholder:"NAME" help:"Name that the certificates of servers must hold, instead of the host in their address."`
}

// config reads the files. It is nil without TLS.
func (t benchTLS) config() (*tls.Config, error) {
	if t == (benchTLS{}) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		authorities, err := regularfile.ReadPEM(t.CA)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("--tls-ca: %s: no certificate in PEM form", t.CA)
		}
	}
	if t.Cert != "" {
		pair, err := readPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s with --tls-key %s: %w", t.Cert, t.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func readPair(cert, key string) (tls.Certificate, error) {
	certPEM, err := regularfile.ReadPEM(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := regularfile.ReadPEM(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}
