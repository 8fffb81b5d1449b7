package server

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/testenv"
)

// value returns the value of the only gauge of this name, and its labels.
func (f *fixture) value(name string) (value float64, labels map[string]string) {
	f.t.Helper()
	families := testenv.Must(f.opts.Registry.Gather())(f.t)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		m := family.GetMetric()
		if len(m) != 1 {
			f.t.Fatalf("%s has %d series, want 1", name, len(m))
		}
		labels = map[string]string{}
		for _, l := range m[0].GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		return m[0].GetGauge().GetValue(), labels
	}
	f.t.Fatalf("there is no %s", name)
	return 0, nil
}

func TestBuildInfo(t *testing.T) {
	f := startWith(t, func(o *Options) { o.Build = Build{Version: "v1.2.3", Commit: "abc", Go: "go1"} }, "--config="+directory(t, limited(3)))
	value, labels := f.value("weir_build_info")
	if got, want := fmt.Sprint(value, labels), "1 map[commit:abc go:go1 version:v1.2.3]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The metrics say how the last load ended, and when one last succeeded.
func TestLastReload(t *testing.T) {
	before := time.Now()
	dir := directory(t, limited(3))
	f := start(t, "--config="+dir)
	file := onlyFile(t, dir)
	good, _ := f.value("weir_config_last_reload_successful")
	first, _ := f.value("weir_config_last_reload_success_timestamp_seconds")
	if good != 1 || first < float64(before.Unix()) || first > float64(time.Now().Unix()+1) {
		t.Fatalf("after the start: successful %v at %v, want 1 at %d", good, first, before.Unix())
	}

	write(t, file, "domain: [")
	f.wantAnswer(http.MethodPost, f.debug.addr(), "/-/reload", http.StatusUnprocessableEntity)
	good, _ = f.value("weir_config_last_reload_successful")
	if at, _ := f.value("weir_config_last_reload_success_timestamp_seconds"); good != 0 || at != first {
		t.Errorf("after bad rules: successful %v at %v, want 0 at %v", good, at, first)
	}

	write(t, file, limited(4))
	f.wantAnswer(http.MethodPost, f.debug.addr(), "/-/reload", http.StatusOK)
	good, _ = f.value("weir_config_last_reload_successful")
	if at, _ := f.value("weir_config_last_reload_success_timestamp_seconds"); good != 1 || at <= first {
		t.Errorf("after good rules: successful %v at %v, want 1 after %v", good, at, first)
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
		value, labels := f.value("weir_tls_certificate_" + name + "_timestamp_seconds")
		if value != float64(want.Unix()) || labels["connection"] != "grpc" {
			t.Errorf("%s of %v is %v, want %d", name, labels, value, want.Unix())
		}
	}
}
