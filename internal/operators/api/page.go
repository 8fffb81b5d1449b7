package api

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Page is a large page, such as the metrics, of which one may take a second and hundreds of
// megabytes to make. So it is made once for all who ask meanwhile, and what they read, as
// slowly as they like, are the same bytes, compressed.
type Page struct {
	handler http.Handler
	version func() any

	mu     sync.Mutex
	latest *rendering
}

// NewPage returns what handler shows, without a query. A page is not shown any more when
// version has another value.
func NewPage(handler http.Handler, version func() any) *Page {
	return &Page{handler: handler, version: version}
}

// rendering is a page as it was at a time. It is the http.ResponseWriter that makes it, too.
type rendering struct {
	version any
	ready   chan struct{} // closed when the rest is there
	until   time.Time     // it is shown, so that not all time is spent on making the next
	status  int
	header  http.Header
	gzip    bytes.Buffer
	text    *gzip.Writer // to it
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := p.current()
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

// A page that took longer than cheap to make is shown for so many times as long.
const (
	cheap = 50 * time.Millisecond
	shows = 3
)

// current is the page to read: the one that is being made, or the latest if it is new
// enough, or else a new one.
func (p *Page) current() *rendering {
	p.mu.Lock()
	defer p.mu.Unlock()
	version := p.version()
	if page := p.latest; page != nil && page.version == version {
		select {
		case <-page.ready:
			if time.Now().Before(page.until) {
				return page
			}
		default:
			return page
		}
	}
	p.latest = &rendering{version: version, ready: make(chan struct{}), status: http.StatusOK, header: http.Header{}}
	go p.render(p.latest)
	return p.latest
}

func (p *Page) render(page *rendering) {
	defer close(page.ready)
	began := time.Now()
	page.text, _ = gzip.NewWriterLevel(&page.gzip, gzip.BestSpeed) // which is a level
	p.handler.ServeHTTP(page, &http.Request{Method: http.MethodGet})
	_ = page.text.Close() // a buffer takes all
	page.text = nil       // which takes more than most pages
	if now := time.Now(); now.Sub(began) > cheap {
		page.until = now.Add(shows * now.Sub(began))
	}
}

// Header implements http.ResponseWriter.
func (r *rendering) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *rendering) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *rendering) Write(p []byte) (int, error) { return r.text.Write(p) }
