package e2e

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// Weir runs on one processor while that is enough, on all under heavy load, and on the number in the
// variable GOMAXPROCS if it is set.
func TestProcessors(t *testing.T) {
	t.Parallel()
	var rules strings.Builder
	rules.WriteString("domain: api\ndescriptors:\n")
	for i := range 5_000 {
		fmt.Fprintf(&rules, "  - {key: user, value: u%d, rate_limit: {unit: day, requests_per_unit: 2}}\n", i)
	}
	dir := writeRules(t, rules.String())
	set := startWeir(t, dir, "GOMAXPROCS=3")
	w := startWeir(t, dir)
	wait := func(processors int, work func()) {
		t.Helper()
		testenv.Becomes(t, "processors", float64(processors), func() float64 {
			work()
			return w.metric("go_sched_gomaxprocs_threads", "")
		})
	}
	wait(1, func() {})
	wait(runtime.NumCPU(), func() {
		for range 10 {
			answer, err := http.Post("http://"+w.debug+"/-/reload", "", nil)
			testenv.OK(t, err)
			testenv.OK(t, answer.Body.Close())
		}
	})
	wait(1, func() {})
	testenv.Equal(t, set.metric("go_sched_gomaxprocs_threads", ""), 3, "processors with GOMAXPROCS")
}
