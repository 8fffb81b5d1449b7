package admin

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics shows what a gatherer holds, in the text format of Prometheus. Of many
// series that takes a second and hundreds of megabytes: so it is done once for all
// who ask meanwhile, and what they read, as slowly as they like, is compressed.
type Metrics struct {
	handler http.Handler

	mu     sync.Mutex
	latest *rendering
}

// rendering is the metrics at a time.
type rendering struct {
	ready  chan struct{} // closed when the rest is there
	until  time.Time     // it serves, so that not all time is spent on making the next
	status int
	header http.Header
	gzip   bytes.Buffer
}

// NewMetrics returns the metrics of gatherer.
func NewMetrics(gatherer prometheus.Gatherer) *Metrics {
	return &Metrics{handler: promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{DisableCompression: true})}
}

// At serves the metrics at path.
func (m *Metrics) At(path string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(path, m.Handler())
	return mux
}

// readersAtOnce is how many may read the metrics, of a listener, at a time.
const readersAtOnce = 16

// Handler serves the metrics at any path.
func (m *Metrics) Handler() http.Handler {
	return newGate("metrics", readersAtOnce, placeTime).around(m)
}

// ServeHTTP implements http.Handler.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := m.current()
	select {
	case <-page.ready:
	case <-r.Context().Done():
		return
	}
	maps.Copy(w.Header(), page.header)
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(page.status)
		_, _ = w.Write(page.gzip.Bytes()) // the client has gone if this fails
		return
	}
	w.WriteHeader(page.status)
	if text, err := gzip.NewReader(bytes.NewReader(page.gzip.Bytes())); err == nil { // it was written here
		_, _ = io.Copy(w, text) //nolint:gosec // it was written here
	}
}

// A rendering that took longer than cheap serves for so many times as long.
const (
	cheap  = 50 * time.Millisecond
	serves = 3
)

// current is the rendering to read: the one that is being made, or the latest if
// it is new enough, or else a new one.
func (m *Metrics) current() *rendering {
	m.mu.Lock()
	defer m.mu.Unlock()
	if page := m.latest; page != nil {
		select {
		case <-page.ready:
			if time.Now().Before(page.until) {
				return page
			}
		default:
			return page
		}
	}
	m.latest = &rendering{ready: make(chan struct{}), status: http.StatusOK, header: http.Header{}}
	go m.render(m.latest)
	return m.latest
}

func (m *Metrics) render(page *rendering) {
	defer close(page.ready)
	began := time.Now()
	text, _ := gzip.NewWriterLevel(&page.gzip, gzip.BestSpeed) // which is a level
	m.handler.ServeHTTP(&recorder{page, text}, &http.Request{Method: http.MethodGet})
	_ = text.Close() // a buffer takes all
	if now := time.Now(); now.Sub(began) > cheap {
		page.until = now.Add(serves * now.Sub(began))
	}
}

// recorder makes a rendering of an answer.
type recorder struct {
	page *rendering
	text io.Writer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.page.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.page.status = status }

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) { return r.text.Write(p) }
