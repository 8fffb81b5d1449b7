package alerts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/teststorage"

	"weir/internal/testenv"
)

var promQL = parser.NewParser(parser.Options{})

// history is a Prometheus without its clock: what was scraped, with the time that the
// test says, and the engine that answers queries of it.
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

// scrape reads the metrics of a target as if it were some time. It adds the labels that
// Prometheus adds.
func (h *history) scrape(target, instance string, at time.Time) {
	h.t.Helper()
	response := testenv.Must(http.Get("http://" + target + "/metrics"))(h.t)
	defer response.Body.Close()
	text := testenv.Must(io.ReadAll(response.Body))(h.t)
	samples := testenv.Must(textparse.New(text, response.Header.Get("Content-Type"), labels.NewSymbolTable(), textparse.ParserOptions{}))(h.t)
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

// query returns the answer to a query at some time. NaN is no answer.
func (h *history) query(query string, at time.Time) (promql.Vector, error) {
	q, err := h.engine.NewInstantQuery(context.Background(), h.storage, nil, query, at)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(context.Background())
	vector, err := result.Vector()
	if err != nil {
		return nil, err
	}
	var answer promql.Vector
	for _, sample := range vector {
		if !math.IsNaN(sample.F) {
			sample.Metric = sample.Metric.Copy()
			answer = append(answer, sample)
		}
	}
	return answer, nil
}

// check returns an error if a query has no answer.
func (h *history) check(query string, at time.Time) error {
	answer, err := h.query(query, at)
	if err == nil && len(answer) == 0 {
		err = errors.New("no answer")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// operands are the parts of a condition that have an answer while it does not hold:
// those that are compared.
func operands(e parser.Expr) []parser.Expr {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return operands(e.Expr)
	case *parser.Call:
		if e.Func.Name == "absent" {
			return operands(e.Args[0])
		}
	case *parser.BinaryExpr:
		_, bound := e.RHS.(*parser.NumberLiteral)
		switch {
		case e.Op.IsComparisonOperator() && bound:
			return operands(e.LHS)
		case e.Op.IsComparisonOperator() || e.Op.IsSetOperator():
			return append(operands(e.LHS), operands(e.RHS)...)
		}
	}
	return []parser.Expr{e}
}

// checkCondition returns an error if a part of a condition has no answer.
func (h *history) checkCondition(condition string, at time.Time) error {
	parsed, err := promQL.ParseExpr(condition)
	if err != nil {
		return err
	}
	var problems []error
	for _, operand := range operands(parsed) {
		problems = append(problems, h.check(operand.String(), at))
	}
	return errors.Join(problems...)
}
