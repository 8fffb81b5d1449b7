package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Authority issues certificates for tests. Each authority has its own name and key,
// so its certificates do not verify against another authority.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes an authority whose certificate is valid for an hour.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{key: newKey(t)}
	template := certificate(t)
	template.Subject = pkix.Name{CommonName: "authority " + template.SerialNumber.String()}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der := Must(x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key))(t)
	a.certificate = Must(x509.ParseCertificate(der))(t)
	return a
}

// Name returns the issuer's name in the certificates of the authority.
func (a *Authority) Name() string { return a.certificate.Subject.CommonName }

// PEM returns the certificate of the authority.
func (a *Authority) PEM() []byte { return pemBlock("CERTIFICATE", a.certificate.Raw) }

// Issue returns a certificate for servers and clients, and its key, in PEM
// format. Each subject alternative name may be a URI, an email address, an IP
// address or a DNS name.
func (a *Authority) Issue(t testing.TB, names ...string) (certificatePEM, keyPEM []byte) {
	t.Helper()
	template, key := certificate(t), newKey(t)
	template.Subject = pkix.Name{CommonName: "issued"}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, name := range names {
		uri, err := url.Parse(name)
		switch ip := net.ParseIP(name); {
		case ip != nil:
			template.IPAddresses = append(template.IPAddresses, ip)
		case err == nil && uri.Scheme != "":
			template.URIs = append(template.URIs, uri)
		case strings.Contains(name, "@"):
			template.EmailAddresses = append(template.EmailAddresses, name)
		default:
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der := Must(x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key))(t)
	keyDER := Must(x509.MarshalPKCS8PrivateKey(key))(t)
	return pemBlock("CERTIFICATE", der), pemBlock("PRIVATE KEY", keyDER)
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	return Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

// certificate returns a template, valid from an hour ago until an hour from now.
func certificate(t testing.TB) *x509.Certificate {
	t.Helper()
	serial := Must(rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100)))(t)
	return &x509.Certificate{SerialNumber: serial, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
