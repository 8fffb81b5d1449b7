package simulate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Where a curve has a share of requests, a replay with that amount denies the same share. The shares of
// clients fall to 0, and at suggested amounts are at most the suggested shares.
func TestCurve(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	var log strings.Builder
	at := time.Unix(1_700_000_000, 0).UTC()
	for range 20_000 {
		client := int(100 * random.Float64() * random.Float64() * random.Float64())
		log.WriteString(entry{at, fmt.Sprintf("10.0.0.%d", client), "", "/"}.json() + "\n")
		at = at.Add(time.Duration(random.IntN(120)) * time.Millisecond)
	}
	logs, config := []string{logFile(t, log.String())}, mustEnvoy(t, byAddress)
	for _, limit := range []string{
		"requests_per_unit: 12", "requests_per_unit: 12, algorithm: sliding_window", "requests_per_unit: 12, algorithm: token_bucket, burst: 24",
		"requests_per_unit: 12, charge: always", "requests_per_unit: 1", "requests_per_unit: 0",
	} {
		with := func(amount string) *LimitReport {
			rules := "domain: api\ndescriptors: [{key: remote_address, rate_limit: {unit: minute, " + amount + "}}]\n"
			return &mustRun(t, Options{Logs: logs, Envoy: config, Rules: mustRules(t, rules), Shares: []float64{0, 0.001, 0.01, 0.25}}).Limits[0]
		}
		report, known, last := with(limit), 0, 1.0
		if len(report.Amounts) != 4 || report.Amounts[3].Share != 0.25 {
			t.Errorf("%s: suggests %+v", limit, report.Amounts)
		}
		for i, p := range report.Curve {
			if p.Clients > last || p.X < 0 || p.X > 1 || p.Suggested != nil && p.Clients > *p.Suggested {
				t.Errorf("%s: point %d is %+v after %v", limit, i, p, last)
			}
			last = p.Clients
			if p.Requests == nil {
				continue
			}
			known++
			amount := fmt.Sprintf("requests_per_unit: %d", p.Amount)
			if strings.Contains(limit, "burst") {
				amount += fmt.Sprintf(", burst: %d", 2*p.Amount)
			}
			_, rest, _ := strings.Cut(strings.Replace(limit, ", burst: 24", "", 1), ",")
			if same := with(amount + "," + rest); *p.Requests != float64(same.Denied)/float64(same.Requests) {
				t.Errorf("%s: with %d, %v of the requests are denied, but a replay denies %d of %d", limit, p.Amount, *p.Requests, same.Denied, same.Requests)
			}
		}
		if want := map[string]int{"requests_per_unit: 12": 5, "requests_per_unit: 1": 3, "requests_per_unit: 0": 1}; want[limit] > 0 && known != want[limit] || last != 0 {
			t.Errorf("%s: %d points have shares of requests, the last of clients is %v", limit, known, last)
		}
	}
}
