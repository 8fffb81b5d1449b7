package e2e

import (
	"fmt"
	"strings"

	"weir/internal/testenv"
)

// hasMetric returns an error unless Weir shows the given line among its metrics.
func (w *weir) hasMetric(line string) error {
	a, err := fetch("http://" + w.metrics + "/metrics")
	if err != nil {
		return err
	}
	if !strings.Contains(a.body, line+"\n") {
		return fmt.Errorf("no metric %s in:\n%s", line, a.body)
	}
	return nil
}

// wantMetric fails the test unless Weir shows the given line among its metrics.
func (w *weir) wantMetric(line string) {
	w.t.Helper()
	testenv.OK(w.t, w.hasMetric(line))
}
