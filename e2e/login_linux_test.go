package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/testenv"
)

// gate is the Envoy of examples/login, with Weir behind it and a login that counts who
// tries.
type gate struct {
	*stack
	tries  atomic.Int32
	answer chan struct{} // closed when wrong passwords may be answered
}

// startGate starts them with the files of the example, whose text edit changes.
func startGate(t *testing.T, edit *strings.Replacer) *gate {
	t.Helper()
	g := &gate{answer: make(chan struct{})}
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.tries.Add(1)
		var try struct{ Password string }
		if err := json.NewDecoder(r.Body).Decode(&try); err != nil || try.Password != "right" {
			<-g.answer
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	example := gateway{example: "examples/login/envoy.yaml", edit: edit, upstream: upstream}
	g.stack = example.start(t, edit.Replace(readDocument(t, "examples/login/rules/login.yaml")))
	return g
}

// login is a try of a user with a password.
func login(user, password string) string {
	return `{"user": "` + user + `", "password": "` + password + `"}`
}

// try tries to log in from an address of this machine, and returns the status.
func (g *gate) try(from, body string) int {
	g.t.Helper()
	return testenv.Must(exchange(clientAt(from), http.MethodPost, "http://"+g.addr+"/login", body, "content-type: application/json"))(g.t).status
}

// want tries so often and compares.
func (g *gate) want(n, status int, from, body string) {
	g.t.Helper()
	for i := range n {
		if got := g.try(from, body); got != status {
			g.t.Fatalf("try %d from %s with %s: status %d, want %d", i+1, from, body, got, status)
		}
	}
}

// waitFor tries until the status is as wished: a failure counts a moment after its answer.
func (g *gate) waitFor(status int, from, body string) {
	g.t.Helper()
	testenv.Becomes(g.t, "status", status, func() int { return g.try(from, body) })
}

func TestLogin(t *testing.T) {
	t.Parallel()
	const here, elsewhere = "127.0.0.1", "127.0.0.2"
	g := startGate(t, strings.NewReplacer())
	close(g.answer)
	g.want(20, 200, here, login("alice", "right")) // which never count
	for range 2 {
		g.want(1, 401, here, login("alice", "wrong"))
		g.want(1, 200, here, login("alice", "right"))
	}
	g.want(1, 401, here, login("alice", "wrong"))
	g.waitFor(429, here, login("alice", "right"))
	before := g.tries.Load()
	g.want(10, 429, here, login("alice", "right"))
	if tried := g.tries.Load() - before; tried > 0 {
		t.Errorf("%d denied tries reached the upstream", tried)
	}
	g.want(1, 200, here, login("bob", "right"))
	g.want(1, 200, elsewhere, login("alice", "right"))

	// Bodies without a user count together, so that they help nobody to guess.
	for _, body := range []string{"no JSON", "{}", `{"user": ["alice"]}`, `{"name": "alice"}`, `{"user": null}`, ""} {
		g.try(elsewhere, body)
	}
	g.waitFor(429, elsewhere, `{"User": "alice", "password": "right"}`)
	g.want(1, 200, elsewhere, login("alice", "right"))
}

// The fourth try, a peek of the example, begins a ban that goes on after the window.
func TestLoginBan(t *testing.T) {
	t.Parallel()
	g := startGate(t, strings.NewReplacer("unit: minute, unit_multiplier: 10", "unit: second, unit_multiplier: 2", "15m", "5s"))
	close(g.answer)
	g.waitFor(429, "127.0.0.1", login("alice", "wrong"))
	banned := time.Now()
	g.want(1, 200, "127.0.0.1", login("bob", "right"))
	g.waitFor(200, "127.0.0.1", login("alice", "right"))
	if lasted := time.Since(banned); lasted < 4*time.Second {
		t.Errorf("the ban lasted %v, want 5s", lasted)
	}
}

// As its README says, the example can count tries before and refund those that
// succeed, so that no more are at the login at the same time than may fail.
func TestLoginCountsTriesBefore(t *testing.T) {
	t.Parallel()
	const here, tries = "127.0.0.1", 20
	g := startGate(t, strings.NewReplacer(", deny_for: 15m", "", `"401"`, `"200"`, "hits_addend: {number: 0}", "",
		"apply_on_stream_done: true", "apply_on_stream_done: true\n                                  hits_addend: {number: 1, is_negative_hits: true}"))
	for range tries {
		g.waitFor(200, here, login("alice", "right")) // until those before are refunded
	}
	g.weir.waitForRemaining(3, "login", "remote_address", here, "user", "alice", "status", "200")
	g.tries.Store(0)
	statuses := make(chan int, tries)
	for range tries {
		go func() { statuses <- g.try(here, login("alice", "wrong")) }()
	}
	wantNext(t, statuses, tries-3, 429) // while three wait for their answers
	close(g.answer)
	wantNext(t, statuses, 3, 401)
	if got := g.tries.Load(); got != 3 {
		t.Errorf("%d tries reached the login, want 3", got)
	}
	g.waitFor(429, here, login("alice", "right"))
}
