package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir/internal/testenv"
)

// gate is the Envoy of examples/login, with Weir behind it and a login that counts who
// tries.
type gate struct {
	*envoy
	weir   *weir
	tries  atomic.Int32
	answer chan struct{} // closed when wrong passwords may be answered
}

// startGate starts them with the files of the example, whose text edit changes.
func startGate(t *testing.T, edit *strings.Replacer) *gate {
	t.Helper()
	testenv.Envoy(t)
	g := &gate{answer: make(chan struct{})}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.tries.Add(1)
		var try struct{ Password string }
		if err := json.NewDecoder(r.Body).Decode(&try); err != nil || try.Password != "right" {
			<-g.answer
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(upstream.Close)
	read := func(name string) string {
		data := testenv.Must(os.ReadFile(filepath.Join(testenv.Repository(t), "examples/login", name)))(t)
		return edit.Replace(string(data))
	}
	g.weir = startWeir(t, writeRules(t, read("rules/login.yaml")), onRedis(testenv.RedisServer(t))...)
	doc := map[string]any{}
	parse(t, read("envoy.yaml"), &doc)
	setUpstreams(t, doc, g.weir.grpc, upstream.Listener.Addr().String())
	makePatient(t, doc)
	g.envoy = runEnvoy(t, doc)
	return g
}

// try tries to log in from an address of this machine, and returns the status.
func (g *gate) try(from, body string) int {
	g.t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext,
	}}
	resp := testenv.Must(client.Post("http://"+g.addr+"/login", "application/json", bytes.NewBufferString(body)))(g.t)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// fits reports with an error whether another number of units than want would fit the
// counter of README.md's variant.
func (g *gate) fits(from, user string, want uint32) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := dial(g.t, g.weir.grpc).ShouldRateLimit(ctx, &service.RateLimitRequest{
		Domain: "login", Descriptors: []*ratelimit.RateLimitDescriptor{{
			Entries:    []*ratelimit.RateLimitDescriptor_Entry{{Key: "remote_address", Value: from}, {Key: "user", Value: user}, {Key: "status", Value: "200"}},
			HitsAddend: wrapperspb.UInt64(0),
		}},
	})
	if err == nil && resp.Statuses[0].LimitRemaining != want {
		err = fmt.Errorf("%d fit, want %d", resp.Statuses[0].LimitRemaining, want)
	}
	return err
}

func login(user, password string) string {
	return fmt.Sprintf(`{"user": %q, "password": %q}`, user, password)
}

// wantDenied tries until a try is denied: a failure counts a moment after its answer.
func (g *gate) wantDenied(from, body string) {
	g.t.Helper()
	testenv.Eventually(g.t, func() error {
		if status := g.try(from, body); status != http.StatusTooManyRequests {
			return fmt.Errorf("status %d, want 429", status)
		}
		return nil
	})
}

func TestLogin(t *testing.T) {
	t.Parallel()
	const here, elsewhere = "127.0.0.1", "127.0.0.2"
	g := startGate(t, strings.NewReplacer())
	close(g.answer)
	for i := range 20 { // which never count
		if status := g.try(here, login("alice", "right")); status != 200 {
			t.Fatalf("right password %d: status %d", i, status)
		}
	}
	for i := range 5 {
		if status := g.try(here, login("alice", "wrong")); status != 401 {
			t.Fatalf("wrong password %d: status %d", i, status)
		}
		if status := g.try(here, login("alice", "right")); i < 4 && status != 200 {
			t.Fatalf("right password after %d wrong ones: status %d", i+1, status)
		}
	}
	g.wantDenied(here, login("alice", "right"))
	before := g.tries.Load()
	for range 10 {
		if status := g.try(here, login("alice", "right")); status != 429 {
			t.Errorf("right password after five wrong ones: status %d, want 429", status)
		}
	}
	if tried := g.tries.Load() - before; tried > 0 {
		t.Errorf("%d denied tries reached the upstream", tried)
	}
	if status := g.try(here, login("bob", "right")); status != 200 {
		t.Errorf("another user: status %d, want 200", status)
	}
	if status := g.try(elsewhere, login("alice", "right")); status != 200 {
		t.Errorf("another address: status %d, want 200", status)
	}

	// Bodies without a user count together, so that they help nobody to guess.
	for _, body := range []string{"no JSON", "{}", `{"user": ["alice"]}`, `{"name": "alice"}`, `{"user": null}`, ""} {
		g.try(elsewhere, body)
	}
	g.wantDenied(elsewhere, `{"User": "alice", "password": "right"}`)
	if status := g.try(elsewhere, login("alice", "right")); status != 200 {
		t.Errorf("after bodies without a user: status %d, want 200", status)
	}
}

func TestLoginPassesAfterTheWindow(t *testing.T) {
	t.Parallel()
	g := startGate(t, strings.NewReplacer("unit: minute, unit_multiplier: 10", "unit: second, unit_multiplier: 10"))
	close(g.answer)
	g.wantDenied("127.0.0.1", login("alice", "wrong"))
	testenv.Eventually(t, func() error {
		if status := g.try("127.0.0.1", login("alice", "right")); status != 200 {
			return errors.New("still denied")
		}
		return nil
	})
}

// As its README says, the example can count tries before and give back those that
// succeed, so that no more are at the login at the same time than may fail.
func TestLoginCountsTriesBefore(t *testing.T) {
	t.Parallel()
	const here, tries = "127.0.0.1", 20
	g := startGate(t, strings.NewReplacer(`"401"`, `"200"`, "hits_addend: {number: 0}", "",
		"apply_on_stream_done: true", "apply_on_stream_done: true\n                                  hits_addend: {number: 1, is_negative_hits: true}"))
	for i := range tries {
		testenv.Eventually(t, func() error { // until those before are given back
			if status := g.try(here, login("alice", "right")); status != 200 {
				return fmt.Errorf("right password %d: status %d", i, status)
			}
			return nil
		})
	}
	testenv.Eventually(t, func() error { // until all are
		return g.fits(here, "alice", 5)
	})
	g.tries.Store(0)
	statuses := make(chan int, tries)
	for range tries {
		go func() { statuses <- g.try(here, login("alice", "wrong")) }()
	}
	for range tries - 5 {
		if status := <-statuses; status != 429 {
			t.Errorf("status %d while five wait for their answers, want 429", status)
		}
	}
	close(g.answer)
	for range 5 {
		if status := <-statuses; status != 401 {
			t.Errorf("status %d of a wrong password, want 401", status)
		}
	}
	if got := g.tries.Load(); got != 5 {
		t.Errorf("%d tries reached the login, want 5", got)
	}
	g.wantDenied(here, login("alice", "right"))
}
