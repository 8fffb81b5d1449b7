package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"weir/internal/testenv"
)

// What Weir adds to its answer reaches those it is meant for: headers the
// client, and dynamic metadata Envoy's access log.
func TestHeadersAndMetadataOfWeir(t *testing.T) {
	t.Parallel()
	const rules = `
domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2}
    metadata: {tier: bronze, weight: 1.5}
  - key: user
    value: root
    metadata: {tier: gold}
    rate_limit: {unit: week, unit_multiplier: 2, requests_per_unit: 7}
`
	log := filepath.Join(t.TempDir(), "access.log")
	s := startGateway(t, gateway{
		virtualHost: `
rate_limits: [{actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]}]
routes: [{match: {prefix: /}, route: {cluster: echo}}]
`,
		manager: `
access_log:
  - name: envoy.access_loggers.file
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
      path: ` + log + `
      log_format:
        text_format_source: {inline_string: "%RESPONSE_CODE% %DYNAMIC_METADATA(envoy.filters.http.ratelimit)%\n"}
`}, startUpstream(t), rules,
		"LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_RESET_HEADER=X-Whole-Again", "RESPONSE_DYNAMIC_METADATA=true")

	asked := []struct {
		user             string
		status           int
		limit, remaining string // in the headers of Weir
		policy           string // in the header that Envoy makes of the answer
		logged           string
	}{
		{"alice", 200, "2", "1", "2, 2;w=86400", `{"domain": "api", "descriptors": [{"entries": ["user=alice"]}], "metadata": {"tier": "bronze", "weight": 1.5}}`},
		{"root", 200, "7", "6", "7, 7;w=1209600", `{"domain": "api", "descriptors": [{"entries": ["user=root"]}], "metadata": {"tier": "gold"}}`},
		{"alice", 200, "2", "0", "2, 2;w=86400", `{"domain": "api", "descriptors": [{"entries": ["user=alice"]}], "metadata": {"tier": "bronze", "weight": 1.5}}`},
		{"alice", 429, "2", "0", "2, 2;w=86400", `{"domain": "api", "descriptors": [{"entries": ["user=alice"]}]}`},
	}
	for i, want := range asked {
		a := s.ask("/", "x-user: "+want.user)
		limit, remaining := a.header.Get("ratelimit-limit"), a.header.Get("ratelimit-remaining")
		if a.status != want.status || limit != want.limit || remaining != want.remaining {
			t.Errorf("request %d: status %d, limit %s, remaining %s; want %d, %s, %s",
				i+1, a.status, limit, remaining, want.status, want.limit, want.remaining)
		}
		if got := a.header.Get("x-ratelimit-limit"); got != want.policy {
			t.Errorf("request %d: Envoy tells of the limit %q, want %q", i+1, got, want.policy)
		}
		reset := a.header.Get("x-whole-again")
		if seconds, err := strconv.Atoi(reset); err != nil || seconds < 1 {
			t.Errorf("request %d: the limit is whole again in %q seconds", i+1, reset)
		}
		if got := a.header.Get("retry-after"); want.status == 429 && got != reset {
			t.Errorf("request %d: retry-after is %q, but the limit is whole again in %q seconds", i+1, got, reset)
		}
	}

	for i, line := range linesOf(t, log, len(asked)) {
		status, metadata, _ := strings.Cut(line, " ")
		var got, want any
		if err := json.Unmarshal([]byte(metadata), &got); err != nil {
			t.Fatalf("request %d: %v in the access log: %s", i+1, err, line)
		}
		testenv.OK(t, json.Unmarshal([]byte(asked[i].logged), &want))
		if status != strconv.Itoa(asked[i].status) || !reflect.DeepEqual(got, want) {
			t.Errorf("request %d: Envoy logged %s\nwant %d %s", i+1, line, asked[i].status, asked[i].logged)
		}
	}
}

// linesOf waits until a file has so many lines and returns them.
func linesOf(t *testing.T, file string, count int) []string {
	t.Helper()
	var lines []string
	testenv.Eventually(t, func() error {
		data, err := os.ReadFile(file)
		lines = strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		if err == nil && len(lines) < count {
			err = fmt.Errorf("%d lines, want %d", len(lines), count)
		}
		return err
	})
	return lines
}
