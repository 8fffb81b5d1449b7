package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// get returns the answer of handler to a request without a body, over loopback.
func get(handler http.Handler, method, path string) (code int, contentType, body string) {
	w := ask(handler, method, path, "")
	return w.Code, w.Header().Get("Content-Type"), w.Body.String()
}

const text = "text/plain; charset=utf-8"

func TestService(t *testing.T) {
	health := errors.New("waiting for redis")
	handler := Service(func() error { return health }, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	if code, kind, body := get(handler, "GET", "/healthcheck"); code != 500 || kind != text || body != "waiting for redis\n" {
		t.Errorf("unhealthy: got %d %s %q", code, kind, body)
	}
	health = nil
	if code, kind, body := get(handler, "GET", "/healthcheck"); code != 200 || kind != text || body != "OK" {
		t.Errorf("healthy: got %d %s %q", code, kind, body)
	}
	if code, _, _ := get(handler, "POST", "/json"); code != 429 {
		t.Errorf("/json: got %d", code)
	}
	if code, _, _ := get(handler, "GET", "/"); code != 404 {
		t.Errorf("/: got %d", code)
	}
}

// registryWith holds a counter of that name that is at 3.
func registryWith(name string) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: "Things."})
	registry.MustRegister(counter)
	counter.Add(3)
	return registry
}

func TestMetrics(t *testing.T) {
	handler := NewMetrics(registryWith("hits")).At("/numbers")
	if code, _, body := get(handler, "GET", "/numbers"); code != 200 || !strings.Contains(body, "\nhits 3\n") {
		t.Errorf("got %d %s", code, body)
	}
	if code, _, _ := get(handler, "GET", "/metrics"); code != 404 {
		t.Errorf("other path: got %d", code)
	}
}

func TestDebug(t *testing.T) {
	debug := Debug{
		Status: func() Status { return Status{Version: "v1"} },
		Rules: func(w io.Writer) error {
			_, err := io.WriteString(w, "api.user: unit=MINUTE requests_per_unit=5, shadow_mode: false\n")
			return err
		},
		Reload:  func(context.Context) error { return nil },
		Metrics: NewMetrics(registryWith("hits")),
		Access:  withoutToken(t),
		Logger:  slog.New(slog.DiscardHandler),
	}
	broken := Debug{
		Status: debug.Status,
		Rules:  func(io.Writer) error { return errors.New("no rules") },
		Reload: func(context.Context) error { return errors.New("open config: no such file") }, Metrics: debug.Metrics,
		Access: debug.Access, Logger: debug.Logger,
	}
	invalid := debug
	invalid.Reload = func(context.Context) error {
		return fmt.Errorf("%w:\na.yaml:1:1: first\nb.yaml:2:2: second", ErrInvalidRules)
	}
	tests := []struct {
		name         string
		debug        Debug
		method, path string
		code         int
		body         string
	}{
		{"status", debug, "GET", "/", 200, "Weir v1, up 0s"},
		{"rules", debug, "GET", "/rlconfig", 200, "api.user: unit=MINUTE requests_per_unit=5, shadow_mode: false\n"},
		{"rules fail", broken, "GET", "/rlconfig", 500, "no rules\n"},
		{"metrics", debug, "GET", "/stats", 200, "\nhits 3\n"},
		{"reload", debug, "POST", "/-/reload", 200, "rules loaded\n"},
		{"reload of invalid rules", invalid, "POST", "/-/reload", 422, "invalid rules:\na.yaml:1:1: first\nb.yaml:2:2: second\n"},
		{"reload of unreadable rules", broken, "POST", "/-/reload", 500, "open config: no such file\n"},
		{"profiles", debug, "GET", "/debug/pprof/", 200, "goroutine"},
		{"one profile", debug, "GET", "/debug/pprof/goroutine?debug=1", 200, "goroutine profile:"},
		{"no reload by a link", debug, "GET", "/-/reload", 405, ""},
		{"no command line", debug, "GET", "/debug/pprof/cmdline", 404, ""},
		{"elsewhere", debug, "GET", "/nowhere", 404, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, _, body := get(tt.debug.Handler(), tt.method, tt.path)
			if code != tt.code || !strings.Contains(body, tt.body) {
				t.Errorf("got %d %q, want %d %q", code, body, tt.code, tt.body)
			}
		})
	}
}

// TestReloadsAreAudited asks again and again, from two addresses.
func TestReloadsAreAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a audited
		for range 3 {
			for _, host := range []string{"127.0.0.1", "192.0.2.1"} {
				if !a.admit(host, time.Now()) {
					t.Errorf("%s is not logged", host)
				}
				if a.admit(host, time.Now().Add(auditEvery/2)) {
					t.Errorf("%s is logged twice a second", host)
				}
			}
			time.Sleep(auditEvery)
		}
		if a.admit("192.0.2.2", time.Now()); len(a.last) != 1 {
			t.Errorf("%v are remembered", a.last)
		}
	})
}

var statusTime = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func TestStatusPage(t *testing.T) {
	at := statusTime
	tests := []struct {
		name   string
		status Status
		want   string
	}{
		{"well", Status{
			Version: "v1.2.3", Uptime: 90*time.Second + time.Millisecond, Store: Store{Name: "in memory"},
			Notes:   []string{"SHADOW_MODE is on: no request is denied"},
			Rules:   Rules{Path: "config", LoadedAt: at, Files: 2, Domains: 3, Rules: 4},
			Decided: 1234.56, Denied: 0.25, Exceptions: 3,
		}, `Weir v1.2.3, up 1m30s

health    OK
note      SHADOW_MODE is on: no request is denied
requests  1234.6/s decided, 0.2/s denied
except    3 exceptions in force
counters  in memory
rules     4 (files: 2, domains: 3), loaded from config at 2026-05-04T03:02:01Z
`},
		{"nothing loaded, store away", Status{
			Version: "v1.2.3", Health: errors.New("redis was not reached yet"), Store: Store{Name: "redis at db:6379", Remote: true},
			Rules: Rules{Path: "config", FailedAt: at, Problems: "open config: no such file"},
		}, `Weir v1.2.3, up 0s

health    redis was not reached yet
requests  0.0/s decided, 0.0/s denied
counters  redis at db:6379
store     not asked yet
rules     none loaded from config yet

The last load, at 2026-05-04T03:02:01Z, failed and changed nothing:

open config: no such file
`},
		{"from a control plane", Status{
			Version: "v1.2.3", Store: Store{Name: "in memory"},
			Rules: Rules{
				Path: "the control plane at cp:1", LoadedAt: at, Files: 2, Domains: 3, Rules: 4, Version: "7", FailedVersion: "8", FailedAt: at.Add(time.Hour), Problems: "bad",
				ControlPlane: &ControlPlane{Since: at.Add(time.Minute), Problem: "connection refused"},
			},
		}, `Weir v1.2.3, up 0s

health    OK
requests  0.0/s decided, 0.0/s denied
counters  in memory
rules     4 (resources: 2, domains: 3), version "7", loaded from the control plane at cp:1 at 2026-05-04T03:02:01Z
          NOT connected since 2026-05-04T03:03:01Z, the last stream ended: connection refused

The last load, of version "8", at 2026-05-04T04:02:01Z, failed and changed nothing:

bad
`},
		{"waiting for a control plane", Status{
			Version: "v1.2.3", Health: errors.New("no rules are loaded yet"), Store: Store{Name: "in memory"},
			Rules: Rules{Path: "the control plane at cp:1", ControlPlane: &ControlPlane{Connected: true, Since: at}},
		}, `Weir v1.2.3, up 0s

health    no rules are loaded yet
requests  0.0/s decided, 0.0/s denied
counters  in memory
rules     none loaded from the control plane at cp:1 yet
          connected since 2026-05-04T03:02:01Z
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.status.String(); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

func TestStoreOnStatusPage(t *testing.T) {
	at := statusTime
	later := at.Add(time.Minute)
	tests := []struct {
		name  string
		store Store
		want  string // "" if nothing is said
	}{
		{"in memory", Store{Name: "in memory"}, ""},
		{"not asked", Store{Remote: true}, "not asked yet"},
		{"works", Store{Remote: true, WorkedAt: at}, "works, worked last: 2026-05-04T03:02:01Z"},
		{"never worked", Store{Remote: true, FailingSince: at, FailedAt: later, Kind: "readonly", Problem: "redis is a replica", FailureMode: "error"},
			"FAILS since 2026-05-04T03:02:01Z, failure modes decide (error, unless a limit has its own); worked last: never\n" +
				"          last error at 2026-05-04T03:03:01Z (readonly): redis is a replica"},
		{"fails", Store{Remote: true, WorkedAt: at, FailingSince: later, FailedAt: later, Kind: "timeout", Problem: "no answer", FailureMode: "local"},
			"FAILS since 2026-05-04T03:03:01Z, failure modes decide (local, unless a limit has its own); worked last: 2026-05-04T03:02:01Z\n" +
				"          last error at 2026-05-04T03:03:01Z (timeout): no answer"},
		{"works again", Store{Remote: true, WorkedAt: later, FailedAt: at, Kind: "timeout", Problem: "no answer"},
			"works, worked last: 2026-05-04T03:03:01Z\n          last error at 2026-05-04T03:02:01Z (timeout): no answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			page := Status{Store: tt.store}.String()
			if tt.want == "" {
				if strings.Contains(page, "store ") {
					t.Errorf("says something:\n%s", page)
				}
				return
			}
			if !strings.Contains(page, "\nstore     "+tt.want+"\n") {
				t.Errorf("got:\n%s\nwant:\n%s", page, tt.want)
			}
		})
	}
}

func TestServerHasTimeouts(t *testing.T) {
	s := NewServer(http.NotFoundHandler(), 1, slog.New(slog.DiscardHandler))
	for name, timeout := range map[string]time.Duration{
		"ReadHeaderTimeout": s.ReadHeaderTimeout, "ReadTimeout": s.ReadTimeout, "WriteTimeout": s.WriteTimeout, "IdleTimeout": s.IdleTimeout,
	} {
		if timeout <= 0 {
			t.Errorf("%s is not set", name)
		}
	}
}
