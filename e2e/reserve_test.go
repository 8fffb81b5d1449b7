package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// tokenGateway is the Envoy of an example for language models, in front of m.
type tokenGateway struct {
	*envoy
	weir  *weir
	model *model
}

// startTokens starts the Envoy of a file in examples/llm and a Weir with that example's rules.
func startTokens(t *testing.T, file string, env ...string) *tokenGateway {
	t.Helper()
	testenv.Envoy(t)
	awayFromMidnight(t)
	g := &tokenGateway{weir: startWeir(t, testenv.Repository(t)+"/examples/llm/rules", append(env, patientWithRedis...)...), model: startModel(t)}
	g.envoy = runEnvoy(t, gateway{example: "examples/llm/" + file, upstream: g.model.addr}.bootstrap(t, g.weir.grpc))
	return g
}

// post sends a request of a user of a team and returns the status, or 0 if the answer broke off.
func (g *tokenGateway) post(user, query, body string) int {
	return g.postType(user, query, body, "application/json").status
}

// postType is post of a content type, and returns the answer.
func (g *tokenGateway) postType(user, query, body, contentType string) answer {
	a, _ := exchange(client, http.MethodPost, "http://"+g.addr+"/v1/body?"+query, body, "x-user: "+user, "x-team: of "+user, "content-type: "+contentType)
	return a
}

// postInBackground is post, and returns a channel for the status.
func (g *tokenGateway) postInBackground(user, query, body string) <-chan int {
	statuses := make(chan int, 1)
	go func() { statuses <- g.post(user, query, body) }()
	return statuses
}

var usedTokens = regexp.MustCompile(`"used": (\d+)`)

// waitForUsed waits until exactly want tokens of a user are used, by each limit.
func (g *tokenGateway) waitForUsed(user string, want int) {
	g.t.Helper()
	testenv.Becomes(g.t, "tokens of "+user, fmt.Sprint(times(3, want)), func() string { return fmt.Sprint(g.used(user)) })
}

// used returns the used tokens of a user by the hour and the month, and of the user's team.
func (g *tokenGateway) used(user string) (used []string) {
	g.t.Helper()
	for _, entry := range []string{`"tokens_of","value":"` + user, `"tokens_of_team","value":"of ` + user} {
		a := testenv.Must(exchange(client, http.MethodPost, "http://"+g.weir.debug+"/peek", `{"domain":"llm","entries":[{"key":`+entry+`"}]}`))(g.t)
		for _, found := range usedTokens.FindAllStringSubmatch(a.body, -1) {
			used = append(used, found[1])
		}
	}
	return used
}

// waitForAsked waits until want requests have reached the model.
func (g *tokenGateway) waitForAsked(want int) {
	g.t.Helper()
	testenv.Becomes(g.t, "requests at the model", want, func() int { return int(g.model.asked.Load()) })
}

// settle sends another request and waits until its tokens are used. Envoy has one thread and one
// connection to Weir, so all calls for earlier requests have arrived.
func (g *tokenGateway) settle() {
	g.t.Helper()
	marker := fmt.Sprint("marker ", g.model.asked.Load())
	g.post(marker, "tokens=10", "{}")
	g.waitForUsed(marker, 10)
}

// wantStays fails the test unless want tokens of a user stay used.
func (g *tokenGateway) wantStays(user string, want int) {
	g.t.Helper()
	g.settle()
	testenv.Equal(g.t, fmt.Sprint(g.used(user)), fmt.Sprint(times(3, want)), "tokens of %s", user)
}

// TestReservations sends requests with all kinds of estimates and outcomes through
// examples/llm/reserve.yaml.
func TestReservations(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"memory", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			var env []string
			if store == "redis" {
				env = onRedis(testenv.RedisServer(t))
			}
			g := startTokens(t, "reserve.yaml", env...)
			answered := []struct {
				user, query, body string
				reserved, used    int
			}{
				{"at once", "tokens=100", `{"max_tokens": 400}`, 400, 100},
				{"streamed", "tokens=100&stream", `{"max_tokens": 400}`, 400, 100},
				{"nothing used", "tokens=0", `{"max_tokens": 400}`, 400, 0},
				{"more used", "tokens=300", `{"max_tokens": 200}`, 200, 300},
				{"fractional", "tokens=100", `{"max_tokens": 300.7}`, 300, 100},
				{"largest", "tokens=100", `{"max_tokens": 500}`, 500, 100},
				{"newer name", "tokens=100", `{"max_completion_tokens": 300}`, 300, 100},
				{"both", "tokens=100", `{"max_tokens": 200, "max_completion_tokens": 300}`, 300, 100},
				{"both, first larger", "tokens=100", `{"max_tokens": 300, "max_completion_tokens": 200}`, 300, 100},
				{"missing", "", `{"n": 1}`, 500, 500}, // Envoy tells the model
				{"null", "", `{"max_tokens": null}`, 500, 500},
			}
			for user, body := range map[string]string{
				"5,000":                 `{"max_tokens": 5000}`,
				"5,000 by newer name":   `{"max_completion_tokens": 5000}`,
				"5,000 by one of both":  `{"max_tokens": 5000, "max_completion_tokens": 300}`,
				"501":                   `{"max_tokens": 501}`,
				"huge":                  `{"max_tokens": 1e300}`,
				"negative":              `{"max_tokens": -300}`,
				"string":                `{"max_tokens": "300"}`,
				"two answers":           `{"max_tokens": 300, "n": 2}`,
				"not read in one way":   `{"x": 1, "x": 2}`,
				"no JSON":               `max_tokens`,
				"no object":             `[]`,
				"missing and text/html": `{}`,
				"no body":               ``,
			} {
				contentType := "application/json"
				if strings.HasSuffix(user, "text/html") {
					contentType = "text/html"
				}
				if a := g.postType(user, "tokens=5000", body, contentType); a.status != 400 || !strings.Contains(a.body, "at most 500") {
					t.Errorf("%s: status %d, want 400: %s", user, a.status, a.body)
				}
				g.waitForUsed(user, 0)
			}
			testenv.Equal(t, g.model.asked.Load(), 0, "refused requests that reached the model")
			var statuses []<-chan int
			for _, c := range answered {
				statuses = append(statuses, g.postInBackground(c.user, c.query+"&hold", c.body))
			}
			for _, c := range answered {
				g.waitForUsed(c.user, c.reserved)
			}
			const body = `{"max_tokens": 500}`
			g.abandon("/v1/body?hold&tokens=100", fmt.Sprintf("aborted\r\nx-team: of aborted\r\ncontent-length: %d\r\n\r\n%s", len(body), body), func(*bufio.Reader) {
				g.waitForUsed("aborted", 500)
				g.waitForAsked(len(answered) + 1)
			})
			testenv.Until(t, "the client leaves the model", func() bool { return g.model.left.Load() == 1 })
			close(g.model.release)
			for i, c := range answered {
				wantNext(t, statuses[i], 1, 200)
				g.waitForUsed(c.user, c.used)
			}
			for _, c := range []struct {
				user, query  string
				status, used int
			}{
				{"aborted", "refuse", 500, 500},
				{"breaks off", "die", 502, 500},
				{"stream breaks off", "die&stream", 0, 500},
				{"refused", "refuse", 500, 0},
				{"denied", "tokens=1100", 200, 1100},
				{"denied", "tokens=1", 429, 1100},
			} {
				testenv.Equal(t, g.post(c.user, c.query, "{}"), c.status, "%s", c.user)
				g.wantStays(c.user, c.used)
			}
		})
	}
}

// TestReservationsSurvive restarts Weir and stops Redis while an answer is on its way.
func TestReservationsSurvive(t *testing.T) {
	t.Parallel()
	primary := testenv.RedisServer(t)
	replica := testenv.RedisReplica(t, primary)
	sentinel := testenv.RedisSentinel(t, primary)
	host, port, err := net.SplitHostPort(testenv.OwnAddr(t))
	testenv.OK(t, err)
	env := []string{"REDIS_TYPE=SENTINEL", "REDIS_URL=weir," + sentinel.Addr(), "GRPC_HOST=" + host, "GRPC_PORT=" + port}
	g := startTokens(t, "reserve.yaml", env...)
	statuses := g.postInBackground("alice", "tokens=100&hold", `{"max_tokens": 400}`)
	g.waitForUsed("alice", 400)
	g.waitForAsked(1) // by then Envoy has Weir's answer
	testenv.Until(t, "the replica has the reservation", func() bool { return replica.Command("dbsize") == primary.Command("dbsize") })
	g.weir.kill()
	g.weir = startWeir(t, testenv.Repository(t)+"/examples/llm/rules", append(env, patientWithRedis...)...)
	primary.Stop()
	testenv.Until(t, "the replica is primary", func() bool {
		return !strings.Contains(sentinel.Command("sentinel", "get-master-addr-by-name", "weir"), primary.Addr()[strings.LastIndex(primary.Addr(), ":")+1:])
	})
	g.waitForUsed("alice", 400)
	close(g.model.release)
	wantNext(t, statuses, 1, 200)
	g.waitForUsed("alice", 100)
}

// TestOvershoot sends 50 streams of a team at once, which has tokens for 20, and compares the
// used tokens with the table in examples/llm/README.md. Only requests are denials: Weir also
// denies the calls of Envoy that charge more tokens than are left.
func TestOvershoot(t *testing.T) {
	t.Parallel()
	for file, row := range map[string]struct{ admitted, used int }{"envoy.yaml": {50, 3750}, "reserve.yaml": {20, 1500}} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			g := startTokens(t, file)
			statuses := make(chan int, 50)
			for i := range 50 {
				go func() {
					a, _ := exchange(client, http.MethodPost, "http://"+g.addr+"/v1/body?hold&stream&tokens=75", `{"max_tokens": 75}`, fmt.Sprint("x-user: ", i), "x-team: of all")
					statuses <- a.status
				}()
			}
			wantNext(t, statuses, 50-row.admitted, 429)
			g.waitForAsked(row.admitted)
			close(g.model.release)
			wantNext(t, statuses, row.admitted, 200)
			testenv.Becomes(t, "tokens of the team", fmt.Sprint(row.used), func() string { return g.used("all")[2] })
			testenv.Equal(t, g.post("all", "tokens=1", "{}"), 429, "status")
			g.settle()
			counts := regexp.MustCompile(`"count": \d+`).FindAllString(g.weir.page("/denials"), -1)
			testenv.EqualLists(t, counts, []string{fmt.Sprintf(`"count": %d`, 50-row.admitted+1)}, "denials")
			want := fmt.Sprintf("|[%s](%[1]s)|%d|%d of 1500|", file, row.admitted, row.used)
			testenv.Contains(t, readDocument(t, "examples/llm/README.md"), "\n"+want)
		})
	}
}
