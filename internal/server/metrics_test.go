package server

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/testenv"
)

// startTLS runs a server whose gRPC listener has a certificate, which it returns.
func startTLS(t *testing.T) (f *fixture, certificate *x509.Certificate) {
	t.Helper()
	certificatePEM, key := testenv.NewAuthority(t).Issue(t, "localhost")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crt"), string(certificatePEM))
	write(t, filepath.Join(dir, "key"), string(key))
	block, _ := pem.Decode(certificatePEM)
	certificate = testenv.Must(x509.ParseCertificate(block.Bytes))(t)
	return start(t, "--config="+directory(t, limited(3)), "--grpc-server-use-tls", "--grpc-server-tls-cert="+dir+"/crt", "--grpc-server-tls-key="+dir+"/key"), certificate
}

func TestCertificateTimes(t *testing.T) {
	f, certificate := startTLS(t)
	for name, want := range map[string]time.Time{"not_before": certificate.NotBefore, "not_after": certificate.NotAfter} {
		f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200,
			fmt.Sprintf(`weir_tls_certificate_%s_timestamp_seconds{connection="grpc"} %v`, name, float64(want.Unix())))
	}
}
