package follow

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/testenv"
)

// TestSessionsAreNotResumed comes back with the session of a connection before,
// with which a client need not show its certificate again.
func TestSessionsAreNotResumed(t *testing.T) {
	before, after := testenv.NewAuthority(t), testenv.NewAuthority(t)
	s := newSide(t, before, before, "weir.example")
	server := s.server()
	client := newSide(t, before, before).client().TLS().Clone()
	certificate, key := before.Issue(t, "envoy.example")
	pair := testenv.Must(tls.X509KeyPair(certificate, key))(t)
	client.Certificates = []tls.Certificate{pair}
	client.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	resumed := false
	client.VerifyConnection = func(state tls.ConnectionState) error {
		resumed = resumed || state.DidResume
		return nil
	}
	for range 2 { // the second time it would have a session
		if err, _ := handshake(t, server.TLS(), client, "weir.example"); err != nil {
			t.Fatal(err)
		}
	}
	s.write("ca.crt", after.PEM())
	testenv.Eventually(t, func() error {
		if err, _ := handshake(t, server.TLS(), client, "weir.example"); err != nil {
			return nil
		}
		return errors.New("a client of the old authority is still let in")
	})
	if resumed {
		t.Error("a session was resumed")
	}
}

func TestBadReplacementIsLoggedOnceAndLeftOut(t *testing.T) {
	ours := testenv.NewAuthority(t)
	s := newSide(t, ours, nil, "weir.example")
	good := testenv.Must(os.ReadFile(s.opts.KeyFile))(t)
	_, otherKey := ours.Issue(t)
	const bad, fine = "a changed setting cannot be used", "a changed setting is in use"
	synctest.Test(t, func(t *testing.T) {
		s.opts.Server = true
		server := testenv.Must(OpenTLS(s.opts))(t)
		defer server.Close()
		first := server.TLS()
		for _, step := range []struct {
			change    func() error
			line      string
			bad, fine int // lines in all
		}{
			{func() error { s.write("tls.key", otherKey); return nil }, "private key does not match public key", 1, 0},
			{func() error { return os.Remove(s.opts.KeyFile) }, "tls.key: no such file or directory", 2, 0},
			{func() error { s.write("tls.key", []byte("nonsense")); return nil }, "failed to find any PEM data in key input", 3, 0},
			{func() error { s.write("tls.key", good); return nil }, fine, 3, 1},
		} {
			testenv.OK(t, step.change())
			time.Sleep(time.Second) // enough for many looks
			synctest.Wait()
			log := s.log.String()
			if strings.Count(log, step.line) != 1 || strings.Count(log, bad) != step.bad || strings.Count(log, fine) != step.fine {
				t.Errorf("want %q once, %q %d times, %q %d times, in the log\n%s", step.line, bad, step.bad, fine, step.fine, log)
			}
			if step.fine == 0 && server.TLS() != first {
				t.Error("the configuration has changed")
			}
		}
	})
	for _, secret := range [][]byte{good, otherKey} {
		if line := strings.Split(string(secret), "\n")[1]; strings.Contains(s.log.String(), line) {
			t.Errorf("the log holds a private key:\n%s", s.log.String())
		}
	}
}

// TestMountedSecret replaces files as a kubelet does: they are links through
// ..data, a link to a directory that is exchanged by one rename.
func TestMountedSecret(t *testing.T) {
	ours := testenv.NewAuthority(t)
	s := newSide(t, nil, nil)
	mount := func(version, name string) {
		t.Helper()
		testenv.OK(t, os.Mkdir(filepath.Join(s.dir, version), 0o700))
		certificate, key := ours.Issue(t, name)
		s.write(version+"/tls.crt", certificate)
		s.write(version+"/tls.key", key)
		next, data := filepath.Join(s.dir, "..data_tmp"), filepath.Join(s.dir, "..data")
		testenv.OK(t, errors.Join(os.Symlink(version, next), os.Rename(next, data)))
	}
	mount("..2026_01", "weir.example")
	for _, file := range []string{"tls.crt", "tls.key"} {
		testenv.OK(t, os.Symlink("..data/"+file, filepath.Join(s.dir, file)))
	}
	s.opts.CertFile, s.opts.KeyFile = filepath.Join(s.dir, "tls.crt"), filepath.Join(s.dir, "tls.key")
	server := s.server()
	mount("..2026_02", "new.example")
	testenv.Eventually(t, func() error { return shown(t, server).VerifyHostname("new.example") })

	server.Close() // what was read last stays in use
	if err := shown(t, server).VerifyHostname("new.example"); err != nil {
		t.Error(err)
	}
}
