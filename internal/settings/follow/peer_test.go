package follow

import (
	"crypto/x509"
	"net"
	"net/url"
	"testing"
)

// TestKindsOfNames spells a name as another kind of it. An authority that checks
// DNS names may sign any URI.
func TestKindsOfNames(t *testing.T) {
	uri := func(text string) *x509.Certificate {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
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
		{"envoy.mesh", dns("*.mesh"), true},
		{"envoy.mesh", uri("envoy.mesh"), false},
		{"envoy.mesh", email("envoy.mesh"), false},
		{"192.0.2.7", &x509.Certificate{IPAddresses: []net.IP{net.ParseIP("192.0.2.7")}}, true},
		{"192.0.2.7", uri("192.0.2.7"), false},
		{"2001:db8::7", &x509.Certificate{IPAddresses: []net.IP{net.ParseIP("2001:db8::7")}}, true},
		{"spiffe://mesh/envoy", uri("spiffe://mesh/envoy"), true},
		{"spiffe://mesh/envoy", dns("spiffe://mesh/envoy"), false},
		{"urn:mesh:envoy", uri("urn:mesh:envoy"), true},
		{"spiffe://envoy@mesh", uri("spiffe://envoy@mesh"), true},
		{"spiffe://envoy@mesh", email("spiffe://envoy@mesh"), false},
		{"envoy@mesh", email("envoy@mesh"), true},
		{"envoy@mesh", uri("envoy@mesh"), false},
		{"envoy@mesh", dns("envoy@mesh"), false},
	} {
		if err := holds(test.certificate, test.san); (err == nil) != test.held {
			t.Errorf("%q in a certificate of %v %v %v: got %v, want it held: %v", test.san, test.certificate.DNSNames, test.certificate.EmailAddresses, test.certificate.URIs, err, test.held)
		}
	}
}
