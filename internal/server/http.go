package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"weir/internal/rls"
)

// httpServer returns a server with time limits for slow clients, or nil if listener is nil. At most
// maxConnections connections are open, or fewer if memory is small; others wait. At most half of them
// may lack a complete request: if another such connection arrives, the server closes one of them.
func httpServer(name string, listener net.Listener, handler http.Handler, maxConnections int, logger *slog.Logger) *component {
	if listener == nil {
		return nil
	}
	maxConnections = affordable(maxConnections, 16*16<<10)
	var mu sync.Mutex
	waiting := map[net.Conn]bool{}
	s := &http.Server{
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, waitingKey{}, func() {
				mu.Lock()
				defer mu.Unlock()
				delete(waiting, conn)
			})
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			complete := r.Context().Value(waitingKey{}).(func())
			if r.Body = (requestBody{r.Body, complete}); r.ContentLength == 0 {
				complete()
			}
			w.Header().Set("X-Content-Type-Options", "nosniff")
			handler.ServeHTTP(w, r)
		}),
		ConnState: func(conn net.Conn, state http.ConnState) {
			mu.Lock()
			defer mu.Unlock()
			if state == http.StateActive { // the header is complete, but perhaps not the body
				return
			}
			delete(waiting, conn)
			if state != http.StateNew && state != http.StateIdle {
				return
			}
			for other := range waiting { // an arbitrary connection
				if len(waiting) >= maxConnections/2 {
					other.Close()
					delete(waiting, other)
				}
				break
			}
			waiting[conn] = true
		},
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   30 * time.Second, // profiles extend it
		IdleTimeout:    10 * time.Second,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	stop := func(ctx context.Context) error {
		if err := s.Shutdown(ctx); err != nil {
			return errors.Join(fmt.Errorf("requests cut off: %w", err), s.Close())
		}
		return nil
	}
	return served(name, netutil.LimitListener(listener, maxConnections), s.Serve, stop)
}

// waitingKey is the context key of the function to call when the request is complete.
type waitingKey struct{}

// requestBody is the body of a request. Read calls complete when the body ends or fails.
type requestBody struct {
	io.ReadCloser
	complete func()
}

// Read implements io.Reader.
func (b requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.complete()
	}
	return n, err
}

// At most largeBodies requests at a time may have bodies of unknown size or of more than smallBody bytes.
const smallBody, largeBodies = rls.SmallJSON, 16

// httpHandler serves /healthcheck and /json. health returns an error if the server should get no
// requests. Cross-origin requests from browsers to /json are refused.
func httpHandler(health func() error, json http.Handler) http.Handler {
	mux, large := http.NewServeMux(), make(chan struct{}, largeBodies)
	mux.HandleFunc("/healthcheck", func(w http.ResponseWriter, _ *http.Request) {
		if err := health(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, "OK")
	})
	mux.Handle("/json", http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 || r.ContentLength > smallBody {
			select {
			case large <- struct{}{}:
				defer func() { <-large }()
			default:
				w.Header().Set("Retry-After", "1")
				http.Error(w, fmt.Sprintf("too many large requests at once; the limit is %d", largeBodies), http.StatusServiceUnavailable)
				return
			}
		}
		json.ServeHTTP(w, r)
	})))
	return mux
}
