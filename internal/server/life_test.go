package server

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/internal/testenv"
)

// TestLifeOfReloads loads two sets of rules in turn, 500 times and under load, while the password and
// the certificate for Redis are replaced. Memory, goroutines and file descriptors must be as before.
func TestLifeOfReloads(t *testing.T) {
	authority, dir := testenv.NewAuthority(t), t.TempDir()
	redis, addr := testenv.RedisTLS(t, authority, "--requirepass", "swordfish-0")
	o := newOperator(t, "swordfish-0", redis)
	certify := func() {
		certificate, key := authority.Issue(t, "weir")
		replace(t, dir+"/tls.pem", string(certificate)+string(key)) // in one file, to be replaced in one step
	}
	certify()
	const timeout = 2 * time.Second
	write(t, dir+"/ca.crt", string(authority.PEM()))
	var sets [2]string
	for i := range sets {
		var text strings.Builder
		text.WriteString(limited(yearly))
		for n := range 500 {
			fmt.Fprintf(&text, "  - {key: set%d, value: value%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i, n)
		}
		sets[i] = text.String()
	}
	rules := directory(t, sets[0])
	f := start(t, "--config="+rules, "--redis-url=rediss://"+addr, "--redis-timeout="+timeout.String(), "--redis-auth-file="+mount(t, dir, "swordfish-0"),
		"--redis-tls-cacert="+dir+"/ca.crt", "--redis-tls-client-cert="+dir+"/tls.pem", "--redis-tls-client-key="+dir+"/tls.pem")
	f.wantHealth(true, "OK")

	passwords := 0
	live := func(rotations, reloads int) {
		l := newLoad(t, f)
		for range rotations {
			passwords++
			password := fmt.Sprint("swordfish-", passwords)
			certify()
			mount(t, dir, password)
			o.requirePass(password)
			for n := range reloads / rotations {
				replace(t, rules+"/rules.yaml", sets[n%2])
				testenv.OK(t, f.source.reload())
			}
			testenv.Until(t, "Redis accepts the password", func() bool {
				return strings.Count(f.log.String(), "redis accepted the changed URL, user or password") == passwords
			})
			l.more(t)
		}
		l.ended.Store(true)
		l.running.Wait()
	}
	const connections = 4 // maximum number that a client of Redis needs
	look := func() (goroutines, files int, heap int64) {
		return runtime.NumGoroutine(), len(testenv.Must(os.ReadDir("/dev/fd"))(t)), testenv.LiveHeap()
	}
	live(1, 50)
	testenv.Pass(2*timeout + time.Second) // clients with earlier passwords are closed by then
	goroutines, files, heap := look()
	live(6, 500)
	testenv.Eventually(t, func() error {
		g, d, h := look()
		if g > goroutines || d > files+connections || h > heap+2<<20 {
			return fmt.Errorf("%d goroutines, %d files and %d bytes, before %d, %d and %d", g, d, h, goroutines, files, heap)
		}
		return nil
	})
	f.wantNoPassword()
}
