package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"weir/internal/admin"
	"weir/internal/limiter"
	"weir/internal/rls"
	"weir/internal/settings"
)

// App is the server. It is made by New and runs once.
type App struct {
	opts     Options
	logger   *slog.Logger
	started  time.Time
	health   *health
	rules    *rules
	store    *store
	cleanups cleanups

	grpc, http, debug, metrics *server
}

// New loads the rules, opens the store and binds all listeners. Nothing serves
// yet. If the rules are missing or bad, the error holds every problem.
func New(opts Options) (*App, error) {
	a := &App{opts: opts, logger: opts.Logger, started: time.Now(), health: newHealth()}
	if err := a.build(); err != nil {
		return nil, errors.Join(err, a.cleanUp())
	}
	return a, nil
}

func (a *App) build() error {
	s, reg := a.opts.Settings, a.opts.Registry
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	a.logger.Info("starting", "version", a.opts.Version)
	for _, w := range s.Warnings {
		a.logger.Warn("a variable of envoyproxy/ratelimit has no effect", "variable", w.Variable, "value", w.Value, "instead", w.Instead)
	}
	a.rules = newRules(s.Rules, a.health.setRulesLoaded, a.logger, reg)
	if err := a.rules.start(); err != nil {
		if !s.Rules.ForceStart {
			return err
		}
		a.logger.Error("starting without rules, requests are answered UNAVAILABLE until there are some", "path", s.Rules.Path(), "problems", err)
	}

	var err error
	if a.store, err = openStore(s, a.logger, reg); err != nil {
		return err
	}
	a.cleanups.add("store", func(context.Context) error { return a.store.close() })
	if a.store.ping == nil {
		a.health.setStoreFound(true)
	}

	keys, err := newKeys(s)
	if err != nil {
		return err
	}
	return a.bind(rls.New(rls.Options{
		Rules:           a.rules.tree.Load,
		Limiter:         limiter.New(a.store, reg),
		Keys:            keys,
		Charge:          Charge(s.Store.StopWhenOverLimit),
		Headers:         headers(s.Answers),
		DynamicMetadata: s.Answers.DynamicMetadata,
		MaxDescriptors:  s.Answers.MaxDescriptors,
		Registerer:      reg,
		Logger:          a.logger,
	}))
}

// bind binds the listeners and makes their servers. What is made last is
// stopped first: the answers to Envoy, so that the others can be watched
// meanwhile.
func (a *App) bind(service *rls.Service) error {
	l := a.opts.Settings.Listen
	bound, err := listen(l)
	if err != nil {
		return err
	}
	a.metrics = httpServer("metrics", bound.metrics, admin.Metrics(string(l.PrometheusPath), a.opts.Registry), a.logger)
	a.cleanups.add("metrics", a.metrics.close)

	debug := admin.Debug{Status: a.status, Rules: a.rules.dump, Reload: a.rules.reload}
	a.debug = httpServer("debug", bound.debug, debug.Handler(), a.logger)
	a.cleanups.add("debug", a.debug.close)

	a.http = httpServer("HTTP", bound.http, admin.Service(a.health.err, service.JSONHandler()), a.logger)
	a.cleanups.add("HTTP", a.http.close)

	s := grpc.NewServer(a.grpcOptions()...)
	service.Register(s)
	grpc_health_v1.RegisterHealthServer(s, a.health.grpc)
	a.grpc = grpcServer(bound.grpc, s)
	a.cleanups.add("gRPC", a.grpc.close)
	return nil
}

func (a *App) grpcOptions() []grpc.ServerOption {
	l := a.opts.Settings.Listen
	return append(rls.ServerOptions(),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      l.GRPCMaxConnectionAge,
			MaxConnectionAgeGrace: l.GRPCMaxConnectionAgeGrace,
		}),
		// Envoy's connection_keepalive pings more often than gRPC puts up with.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.StreamInterceptor(a.health.endStreams),
	)
}

func headers(s settings.Answers) rls.Headers {
	if !s.ResponseHeaders {
		return rls.Headers{}
	}
	return rls.Headers{Limit: string(s.LimitHeader), Remaining: string(s.RemainingHeader), Reset: string(s.ResetHeader)}
}

// Charge tells what becomes of denied hits whose limit does not say it.
func Charge(stopWhenOverLimit settings.Choice) limiter.Charge {
	switch {
	case !stopWhenOverLimit.Set:
		return limiter.Auto
	case stopWhenOverLimit.On:
		return limiter.Admitted
	default:
		return limiter.Always
	}
}

// status is what the status page shows.
func (a *App) status() admin.Status {
	return admin.Status{
		Version: a.opts.Version,
		Uptime:  time.Since(a.started),
		Health:  a.health.err(),
		Store:   a.store.status(),
		Rules:   a.rules.report(),
	}
}

// Run serves until ctx ends, then drains: the health checks fail, no new
// connection is taken, and requests in flight have the drain timeout to finish.
// The error tells what failed while serving or had to be cut off.
func (a *App) Run(ctx context.Context) error {
	background, stop := context.WithCancel(ctx)
	defer stop()
	var tasks sync.WaitGroup
	watcher := newWatcher(a.rules.path, a.logger)
	tasks.Go(func() { a.rules.watch(background, watcher, a.opts.Settings.Rules.ConfigPollInterval, a.opts.Reload) })
	if a.store.ping != nil {
		tasks.Go(func() { a.store.find(background, a.health, a.logger) })
	}

	servers := []*server{a.grpc, a.http, a.debug, a.metrics}
	failed := make(chan error, len(servers))
	for _, s := range servers {
		tasks.Go(func() {
			if err := s.run(); err != nil {
				failed <- err
			}
		})
	}
	a.logger.Info("listening", "grpc", a.GRPCAddr(), "http", a.HTTPAddr(), "debug", a.DebugAddr(), "metrics", a.MetricsAddr())

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		a.logger.Error("a listener failed", "err", err)
	}
	stop()
	a.health.setDraining()
	a.logger.Info("draining", "timeout", a.opts.Settings.Process.DrainTimeout)
	err = errors.Join(err, a.cleanUp())
	tasks.Wait()
	a.logger.Info("stopped")
	return err
}

// cleanUp stops what was started, within the drain timeout.
func (a *App) cleanUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), a.opts.Settings.Process.DrainTimeout)
	defer cancel()
	return a.cleanups.run(ctx, a.logger)
}

// GRPCAddr is where gRPC listens, host:port.
func (a *App) GRPCAddr() string { return a.grpc.listener.Addr().String() }

// HTTPAddr is where /healthcheck and /json are, host:port.
func (a *App) HTTPAddr() string { return a.http.listener.Addr().String() }

// DebugAddr is where operators look, host:port.
func (a *App) DebugAddr() string { return a.debug.listener.Addr().String() }

// MetricsAddr is where the metrics are, host:port.
func (a *App) MetricsAddr() string { return a.metrics.listener.Addr().String() }
