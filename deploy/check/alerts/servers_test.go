package alerts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/teststorage"

	"weir/internal/testenv"
)

// buildWeir builds the program, from its own module, and returns its path.
func buildWeir(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir")
	build := exec.Command("go", "build", "-o", path, "./cmd/server")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building weir: %v\n%s", err, out)
	}
	return path
}

// weir is a running server.
type weir struct {
	t             *testing.T
	http, metrics string // addresses
	users         int    // number of users that have sent requests
}

// startWeir runs a server on free ports until the test ends.
func startWeir(t *testing.T, program string, environment ...string) *weir {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), append([]string{
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0",
		"PROMETHEUS_ADDR=127.0.0.1:0", "DRAIN_DELAY=0s", "DISABLE_STATS=true",
	}, environment...)...)
	log := new(testenv.Log)
	cmd.Stderr = log
	testenv.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log:\n%s", log)
		}
	})
	log.WaitFor(t, "msg=listening")
	address := func(name string) string {
		return regexp.MustCompile(`\b` + name + `=(127\.0\.0\.1:\d+)`).FindStringSubmatch(log.String())[1]
	}
	w := &weir{t: t, http: address("http"), metrics: address("metrics")}
	testenv.Eventually(t, func() error {
		_, err := get(w.http + "/healthcheck")
		return err
	})
	return w
}

// get returns the body of a page. It fails if the status is not 200.
func get(page string) ([]byte, error) {
	response, err := http.Get("http://" + page)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(response.Body)
}

// ask sends a request for one descriptor.
func (w *weir) ask(domain, key, value string) {
	w.t.Helper()
	body := fmt.Sprintf(`{"domain": %q, "descriptors": [{"entries": [{"key": %q, "value": %q}]}]}`, domain, key, value)
	response := testenv.Must(http.Post("http://"+w.http+"/json", "application/json", strings.NewReader(body)))(w.t)
	defer response.Body.Close()
	testenv.Must(io.Copy(io.Discard, response.Body))(w.t) // so that the connection is reused
}

// traffic sends the requests between two scrapes: admitted and denied requests, some in shadow
// mode, some without a rule or for an unknown domain.
func (w *weir) traffic(times int) {
	w.t.Helper()
	for range times {
		w.users++
		w.ask("api", "user", fmt.Sprint(w.users))
		w.ask("api", "user", "alice")
		w.ask("api", "tried", "bob")
		w.ask("api", "stranger", "carol")
	}
	w.ask("unknown", "user", "alice")
}

// waitFor waits until the metrics contain a line, and sends requests until then.
func (w *weir) waitFor(line string) {
	w.t.Helper()
	testenv.Eventually(w.t, func() error {
		w.traffic(1)
		text, err := get(w.metrics + "/metrics")
		if err == nil && !bytes.Contains(text, []byte("\n"+line+"\n")) {
			err = fmt.Errorf("there is no %s", line)
		}
		return err
	})
}

var promQL = parser.NewParser(parser.Options{})

// history is a Prometheus with the clock of the test: it has the scraped series, and the
// query engine.
type history struct {
	t       *testing.T
	storage *teststorage.TestStorage
	engine  *promql.Engine
}

func newHistory(t *testing.T) *history {
	t.Helper()
	return &history{
		t:       t,
		storage: teststorage.New(t),
		engine:  promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: promQL}),
	}
}

// scrape reads the metrics of a target and stores them with the given time and the labels
// that Prometheus adds.
func (h *history) scrape(target, instance string, at time.Time) {
	h.t.Helper()
	text := testenv.Must(get(target + "/metrics"))(h.t)
	samples := testenv.Must(textparse.New(text, "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{}))(h.t)
	appender := h.storage.Appender(h.t.Context())
	for {
		entry, err := samples.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			h.t.Fatalf("metrics of %s: %v in:\n%s", target, err, bytes.TrimSpace(text))
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var found labels.Labels
		samples.Labels(&found)
		_, _, value := samples.Series()
		b := labels.NewBuilder(found)
		for name, value := range map[string]string{"namespace": "edge", "job": "weir", "instance": instance} {
			b.Set(name, value)
		}
		testenv.Must(appender.Append(0, b.Labels(), at.UnixMilli(), value))(h.t)
	}
	testenv.OK(h.t, appender.Commit())
}

// ask returns the result of a query for every half minute of a span of time, without NaN.
func (h *history) ask(query string, from, until time.Time) (answer promql.Matrix, err error) {
	q, err := h.engine.NewRangeQuery(context.Background(), h.storage, nil, query, from, until, time.Minute/2)
	if err != nil {
		return nil, err
	}
	matrix, err := q.Exec(context.Background()).Matrix()
	for _, series := range matrix {
		series.Floats = slices.DeleteFunc(series.Floats, func(p promql.FPoint) bool { return math.IsNaN(p.F) })
		if len(series.Floats) > 0 {
			answer = append(answer, series)
		}
	}
	return answer, err
}

// check returns an error if a query has no result at the given time.
func (h *history) check(query string, at time.Time) error {
	answer, err := h.ask(query, at, at)
	if err == nil && len(answer) == 0 {
		err = errors.New("no answer")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// checkCondition returns an error if a series that a condition queries is missing.
// alerts_test.yaml tests whether the condition fires.
func (h *history) checkCondition(condition string, at time.Time) error {
	parsed, err := promQL.ParseExpr(condition)
	if err != nil {
		return err
	}
	for _, selectors := range parser.ExtractSelectors(parsed) {
		asked := parser.VectorSelector{LabelMatchers: selectors}
		err = errors.Join(err, h.check(asked.String(), at))
	}
	return err
}
