package tlsfiles

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"weir/internal/descriptors/regularfile"
)

// material is what the files hold, as far as they are named.
type material struct {
	certificates []tls.Certificate
	authorities  *x509.CertPool
}

// follow looks at the files after every interval until ctx ends.
func (c *Config) follow(ctx context.Context) {
	ticker := time.NewTicker(c.opts.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		found, err := c.look()
		switch {
		case err != nil:
			c.opts.Logger.Warn("changed TLS files are bad, those read before stay in use", "err", err)
		case found != nil:
			c.current.Store(found)
			c.opts.Logger.Info("changed TLS files are in use", "certificate", c.opts.CertFile, "authorities", c.opts.CAFile)
		}
	}
}

// look reads the files and returns what they make, or nothing if they are, or
// fail, as they did the last time.
func (c *Config) look() (*tls.Config, error) {
	var contents [3][]byte
	var err error
	for i, file := range []string{c.opts.CertFile, c.opts.KeyFile, c.opts.CAFile} {
		if file == "" || err != nil {
			continue
		}
		contents[i], err = regularfile.ReadPEM(file)
	}
	now := fingerprint(contents, err)
	if now == c.seen {
		return nil, nil
	}
	c.seen = now
	if err != nil {
		return nil, err
	}
	m, err := c.opts.parse(contents[0], contents[1], contents[2])
	if err != nil {
		return nil, err
	}
	return c.make(m), nil
}

// fingerprint is different for looks that found different files.
func fingerprint(contents [3][]byte, err error) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%x %v", contents, err))
}

func (o Options) parse(certificate, key, authorities []byte) (m material, err error) {
	if o.CertFile != "" {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return material{}, fmt.Errorf("certificate %s with key %s: %w", o.CertFile, o.KeyFile, err)
		}
		m.certificates = []tls.Certificate{pair}
	}
	if o.CAFile != "" {
		m.authorities = x509.NewCertPool()
		if !m.authorities.AppendCertsFromPEM(authorities) {
			return material{}, fmt.Errorf("authorities %s: no certificate in PEM form", o.CAFile)
		}
	}
	return m, nil
}
