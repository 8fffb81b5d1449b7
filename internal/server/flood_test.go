package server

import (
	"strings"
	"sync"
	"testing"
)

// TestReloadsDoNotFloodTheLog asks for reloads from many clients, each of whom
// gets the whole answer.
func TestReloadsDoNotFloodTheLog(t *testing.T) {
	t.Parallel()
	const clients, each, mostLines = 16, 10, 20
	const hollow = "domain: api\n" // with a warning
	for _, tt := range []struct {
		name, rules, answer string
		code                int
	}{
		{"good rules", hollow, "rules loaded\n", 200},
		{"bad rules", "domain: api\ndescriptors:\n  - key: a\n    colour: red\n", "rules.yaml:4:5: descriptors[0]: unknown field \"colour\"", 422},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := directory(t, hollow)
			f := start(t, "--config="+dir)
			f.wantHealth(true, "OK")
			replace(t, dir+"/rules.yaml", tt.rules)
			f.wantAnswer("POST", f.DebugAddr(), "/-/reload", tt.code, tt.answer)
			before := strings.Count(f.log.String(), "\n")
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					for range each {
						code, answer, err := f.request("POST", f.DebugAddr(), "/-/reload", "")
						if err != nil || code != tt.code || !strings.Contains(answer, tt.answer) {
							t.Errorf("got %d %q (error: %v)", code, answer, err)
						}
					}
				})
			}
			all.Wait()
			if n := strings.Count(f.log.String(), "\n") - before; n > mostLines {
				t.Errorf("%d reloads made %d lines of log, want at most %d", clients*each, n, mostLines)
			}
		})
	}
}
