package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"weir/internal/testenv"
)

// gate is the Envoy of examples/login with Weir and an upstream that counts login tries.
type gate struct {
	*stack
	tries  atomic.Int32
	answer chan struct{} // closed when the upstream may answer wrong passwords
}

// startGate starts a gate with the files of the example. edit changes their text.
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

// login returns the body of a login request.
func login(user, password string) string {
	return `{"user": "` + user + `", "password": "` + password + `"}`
}

// try sends a login request from an address of this machine and returns the status.
func (g *gate) try(from, body string) int {
	g.t.Helper()
	return testenv.Must(exchange(clientAt(from), http.MethodPost, "http://"+g.addr+"/login", body, "content-type: application/json"))(g.t).status
}

// want sends n login requests and compares their statuses.
func (g *gate) want(n, status int, from, body string) {
	g.t.Helper()
	for i := range n {
		testenv.Equal(g.t, g.try(from, body), status, "status of try %d from %s with %s", i+1, from, body)
	}
}

// waitFor repeats a login request until it has the status. A failed login is counted shortly
// after its answer.
func (g *gate) waitFor(status int, from, body string) {
	g.t.Helper()
	testenv.Becomes(g.t, "status", status, func() int { return g.try(from, body) })
}

func TestLogin(t *testing.T) {
	t.Parallel()
	const here, elsewhere = "127.0.0.1", "127.0.0.2"
	g := startGate(t, strings.NewReplacer())
	close(g.answer)
	g.want(20, 200, here, login("alice", "right")) // successful logins never count
	for range 2 {
		g.want(1, 401, here, login("alice", "wrong"))
		g.want(1, 200, here, login("alice", "right"))
	}
	g.want(1, 401, here, login("alice", "wrong"))
	g.waitFor(429, here, login("alice", "right"))
	before := g.tries.Load()
	g.want(10, 429, here, login("alice", "right"))
	testenv.Equal(t, g.tries.Load(), before, "tries that reached the upstream")
	g.want(1, 200, here, login("bob", "right"))
	g.want(1, 200, elsewhere, login("alice", "right"))

	// Bodies without a user share a counter, so that they do not help to guess passwords.
	for _, body := range []string{"no JSON", "{}", `{"user": ["alice"]}`, `{"name": "alice"}`, `{"user": null}`, ""} {
		g.try(elsewhere, body)
	}
	g.waitFor(429, elsewhere, `{"User": "alice", "password": "right"}`)
	g.want(1, 200, elsewhere, login("alice", "right"))
}

// As the example's README says, Envoy can count tries before they reach the login and refund
// successful ones, so that no more tries are in flight than may fail.
func TestLoginCountsTriesBefore(t *testing.T) {
	t.Parallel()
	const here, tries = "127.0.0.1", 20
	g := startGate(t, strings.NewReplacer(", deny_for: 15m", "", `"401"`, `"200"`, "hits_addend: {number: 0}", "",
		"apply_on_stream_done: true", "apply_on_stream_done: true\n                                  hits_addend: {number: 1, is_negative_hits: true}"))
	for range tries {
		g.waitFor(200, here, login("alice", "right")) // repeats until earlier tries are refunded
	}
	g.weir.waitForRemaining(3, "login", "remote_address", here, "user", "alice", "status", "200")
	g.tries.Store(0)
	statuses := make(chan int, tries)
	for range tries {
		go func() { statuses <- g.try(here, login("alice", "wrong")) }()
	}
	wantNext(t, statuses, tries-3, 429) // three tries wait for their answers
	close(g.answer)
	wantNext(t, statuses, 3, 401)
	testenv.Equal(t, g.tries.Load(), 3, "tries that reached the login")
	g.waitFor(429, here, login("alice", "right"))
}
