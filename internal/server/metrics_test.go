package server

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

func TestBuildInfo(t *testing.T) {
	f := startWith(t, func(o *Options) { o.Build = Build{Version: "v1.2.3", Commit: "abc", Go: "go1"} }, "--config="+directory(t, limited(3)))
	f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, `weir_build_info{commit="abc",go="go1",version="v1.2.3"} 1`)
}

// The metrics say how the last load ended, and when one last succeeded.
func TestLastReload(t *testing.T) {
	last := float64(time.Now().Unix() - 1)
	dir := directory(t, limited(3))
	f := start(t, "--config="+dir)
	for _, load := range []struct {
		rules      string
		code, good int
	}{{limited(3), 200, 1}, {"domain: [", 422, 0}, {limited(4), 200, 1}} {
		write(t, dir+"/rules.yaml", load.rules)
		f.wantAnswer("POST", f.debug.addr(), "/-/reload", load.code)
		f.wantAnswer("GET", f.metrics.addr(), "/metrics", 200, fmt.Sprintf("weir_config_last_reload_successful %d\n", load.good))
		_, page, _ := f.request("GET", f.metrics.addr(), "/metrics", "")
		_, text, _ := strings.Cut(page, "\nweir_config_last_reload_success_timestamp_seconds ")
		var at float64
		testenv.Must(fmt.Sscan(text, &at))(t)
		if load.good == 1 && (at <= last || at > float64(time.Now().Unix()+1)) || load.good == 0 && at != last {
			t.Errorf("after %q: at %v, before it at %v", load.rules, at, last)
		}
		last = at
	}
}

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
