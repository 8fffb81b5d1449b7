package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/plan"
	"weir/internal/rls"
	"weir/internal/settings"
	"weir/internal/settings/follow"
	"weir/internal/telemetry"
)

// Options says what an App is made of. All fields but Stdout and Reload are required.
type Options struct {
	Settings settings.Settings
	Logger   *slog.Logger
	// Stdout takes the decision log, if that is to go there.
	Stdout io.Writer
	// Registry receives the metrics of all parts, and is what the metrics
	// listener shows.
	Registry *prometheus.Registry
	// Build is shown in the log, on the status page and by the metric weir_build_info.
	Build Build
	// Reload makes the rules be loaded again with each signal that it delivers.
	Reload <-chan os.Signal
	// Hurry ends the pause before the drain when it ends. If it ends before the context of
	// Run, there is no pause. It also ends commands that print secrets for New.
	Hurry context.Context
}

// App is the server. It is made by New and runs once.
type App struct {
	opts       Options
	logger     *slog.Logger
	started    time.Time
	health     *health
	rules      *rules
	source     source
	secrets    []secret
	store      store
	tracing    *sdktrace.TracerProvider // nil: none
	denials    *operators.Recorder
	usage      *telemetry.Usage
	access     *api.Access
	rates      *rates
	servers    *operators.Servers // nil: alone
	operators  *api.Server
	exceptions *operators.Exceptions
	parts      parts

	storeRegistry *prometheus.Registry // of the metrics of the store

	grpc, http     *part
	debug, metrics *part // nil: not bound
}

// New loads the rules, opens the store and binds all listeners. Nothing serves
// yet. If the rules are missing or bad, the error names the problems.
func New(opts Options) (*App, error) {
	a := &App{opts: opts, logger: opts.Logger, started: time.Now(), health: newHealth(), denials: operators.NewRecorder(time.Now())}
	if err := a.build(); err != nil {
		return nil, errors.Join(err, a.stop())
	}
	return a, nil
}

func (a *App) build() error {
	if err := a.openSecrets(); err != nil {
		return err
	}
	s, reg := a.opts.Settings, a.opts.Registry
	a.registerProcess()
	serviceMetrics := prometheus.NewRegistry() // that go to statsd, too
	reg.MustRegister(serviceMetrics)

	a.logger.Info("starting", "version", a.opts.Build.String())
	limitMemory(a.logger)
	for _, w := range s.Warnings {
		a.logger.Warn("a variable has no effect", "variable", w.Variable, "value", w.Value, "instead", w.Instead)
	}
	for _, note := range plan.SwitchedOn(s.Answers.ShadowMode, s.Answers.QuotaMode) {
		a.logger.Warn("a switch changes every response", "effect", note)
	}

	if err := a.openRules(serviceMetrics); err != nil {
		return err
	}
	keys, err := NewKeys(s.Store.Keys, s.Redis.Main.URL != "" && s.Redis.Clustered())
	if err != nil {
		return err
	}
	if err = a.openStore(); err != nil {
		return err
	}
	a.openOperators()
	options := plan.Options{
		Keys:           keys,
		Charge:         Charge(s.Store.StopWhenOverLimit),
		CalendarMonths: s.Rules.CalendarMonths,
		ShadowMode:     s.Answers.ShadowMode,
		QuotaMode:      s.Answers.QuotaMode,
		Exceptions:     a.exceptions.Current(),
	}
	a.usage = telemetry.New(telemetry.Options{Registerer: reg, Logger: a.logger, NearLimitRatio: float32(s.Metrics.NearLimitRatio)})
	a.rules.keep = a.usage.Keep
	a.parts.background("usage", a.usage.Run)
	a.startStatsd(serviceMetrics)
	decisions, err := a.openTelemetry()
	if err != nil {
		return err
	}
	observer := operators.Observer{Denials: a.denials, Log: decisions, Hashed: keys.DigestsValues()}
	service := rls.New(rls.Options{
		Decider: &plan.Decider{
			Planner: plan.New(options), Rules: a.rules.tree.Load,
			Store: &a.store, Spread: limiter.NewRetrySpread(time.Now), Failover: a.store.failover, Usage: a.usage,
		},
		Observe:         observer.Observe,
		ResponseHeaders: headers(s.Answers.ResponseHeaders, s.Answers.LimitHeader, s.Answers.RemainingHeader, s.Answers.ResetHeader),
		RequestHeaders:  headers(s.Answers.RequestHeaders, s.Answers.RequestLimitHeader, s.Answers.RequestRemainingHeader, s.Answers.RequestResetHeader),
		DynamicMetadata: s.Answers.DynamicMetadata,
		MaxConcurrent:   s.Answers.MaxConcurrentRequests,
		Timeout:         s.Answers.RequestTimeout,
		Registerer:      serviceMetrics,
		Logger:          a.logger,
	})
	a.rates = newRates(service.Totals)
	a.parts.background("rates", a.rates.run)
	return a.bind(service, options)
}

// openRules finds the source of the rules, and the rules if they are there.
// serviceMetrics takes the metrics of loads.
func (a *App) openRules(serviceMetrics prometheus.Registerer) (err error) {
	s := a.opts.Settings
	a.rules = newRules(RuleOptions(s.Rules.Reading), a.health.setRulesLoaded, a.logger, serviceMetrics)
	if s.XDS.Enabled() {
		if s.Rules.Config != "" {
			a.logger.Warn("rules come from the control plane; --config (CONFIG_PATH) is ignored", "path", s.Rules.Config)
		}
		a.source, err = a.openControlPlane()
	} else {
		a.source, err = openFiles(a.rules, s.Rules)
	}
	if err != nil {
		return err
	}
	a.parts.background("memory", a.rules.tuner.run)
	a.parts.background("rules", func(ctx context.Context) { a.source.run(ctx) })
	a.parts.background("reload", func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-a.opts.Reload:
				_ = a.source.reload() // which has logged its error
			}
		}
	})
	return nil
}

// bind binds the listeners and makes their servers. What is made last is
// stopped first: the answers to Envoy, so that the others can be watched
// meanwhile.
func (a *App) bind(requests *rls.Service, options plan.Options) error {
	l, transport := a.opts.Settings.Listen, insecure.NewCredentials()
	if tls := a.opts.Settings.TLS; tls.On {
		files, err := a.openTLS("grpc", follow.TLSOptions{Server: true, CertFile: tls.Cert, KeyFile: tls.Key, CAFile: tls.ClientCA, PeerSAN: tls.ClientSAN, Refused: countRefused(a.opts.Registry)})
		if err != nil {
			return fmt.Errorf("TLS of the gRPC listener (see GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY and GRPC_CLIENT_TLS_CACERT): %w", err)
		}
		transport = files.Credentials()
	}
	bound, err := listen(a.opts.Settings, a.logger)
	if err != nil {
		return err
	}
	serve := func(p *part) *part { // runs and stops with a
		if p != nil {
			a.parts = append(a.parts, p)
		}
		return p
	}
	// What is large, all readers share. HTTP is for clients without gRPC.
	metrics := api.NewPage(promhttp.HandlerFor(a.opts.Registry, promhttp.HandlerOpts{DisableCompression: true}), func() time.Time { return time.Time{} })
	mux := http.NewServeMux()
	mux.Handle(l.PrometheusPath, metrics)
	a.metrics = serve(httpServer("metrics", bound["metrics"], mux, 1024, a.logger))
	a.makeOperators(options, metrics)
	a.debug = serve(httpServer("debug", bound["debug"], a.operators.Handler(), 1024, a.logger))
	a.http = serve(httpServer("HTTP", bound["HTTP"], httpHandler(a.health.err, requests.JSONHandler()), 4096, a.logger))

	headersRead := []string{operators.RequestIDHeader}
	if a.tracing != nil || a.opts.Settings.DecisionLog.Decisions != "off" {
		headersRead = append(headersRead, propagator.Fields()...)
	}
	arrivals := newArrivals()
	a.rules.tuner.scarce = func() { arrivals.scarce.Store(true) }
	turning, end := context.WithCancel(context.Background())
	a.parts.add("arrivals", func(context.Context) error { arrivals.run(turning); return nil }, func(context.Context) error { end(); return nil }) // after the drain
	grpcOptions := grpcOptions(l, transport, a.health, arrivals, headersRead)
	if a.tracing != nil {
		grpcOptions = append(grpcOptions, traced(a.tracing))
	}
	s := grpc.NewServer(grpcOptions...)
	requests.Register(s)
	grpc_health_v1.RegisterHealthServer(s, a.health.grpc)
	reflection.Register(s)
	a.grpc = serve(grpcServer(bound["gRPC"], s, arrivals))
	return nil
}

// openTLS reads the files of TLS of a connection and follows them until a stops. A metric
// shows how long the certificate is valid.
func (a *App) openTLS(connection string, o follow.TLSOptions) (*follow.TLS, error) {
	o.Logger = a.logger
	files, err := follow.OpenTLS(o)
	if err != nil {
		return nil, err
	}
	a.parts.closer("TLS files of "+connection, files.Close)
	registerCertificate(a.opts.Registry, connection, files)
	return files, nil
}

func headers(on bool, limit, remaining, reset string) rls.Headers {
	if !on {
		return rls.Headers{}
	}
	return rls.Headers{Limit: limit, Remaining: remaining, Reset: reset}
}

// Charge returns what becomes of denied hits whose limit does not say it.
func Charge(stopWhenOverLimit settings.Word) limiter.Charge {
	return map[settings.Word]limiter.Charge{"": limiter.Auto, "true": limiter.Admitted, "false": limiter.Always}[stopWhenOverLimit]
}

// RuleOptions returns how rules are loaded by the settings.
func RuleOptions(s settings.Reading) descriptors.Options {
	return descriptors.Options{MergeDomains: s.MergeDomainConfig, CalendarMonths: s.CalendarMonths}
}

// Run serves until ctx ends. Then the health checks fail, so that clients go
// elsewhere, while everything else goes on for the drain delay, or until Hurry.
// Then it drains: no new connection is taken, and requests in flight have the
// drain timeout to finish. The error says what failed while serving, had to be cut
// off, or did not end and is left behind.
func (a *App) Run(ctx context.Context) error {
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	failed := a.parts.start(background)
	a.logger.Info("listening", "grpc", a.grpc.addr(), "http", a.http.addr(), "debug", a.debug.addr(), "metrics", a.metrics.addr())
	if at, err := netip.ParseAddrPort(a.debug.addr()); err == nil && !at.Addr().IsLoopback() {
		a.logger.Info("the debug port is open to other machines; DEBUG_HOST restricts it", "debug", at.String())
	}
	var err error
	select {
	case <-ctx.Done():
		a.health.setLeaving()
		err = a.leave(failed)
	case err = <-failed:
	}
	end()
	a.health.setDraining()
	a.logger.Info("draining", "timeout", a.opts.Settings.Process.DrainTimeout)
	err = errors.Join(err, a.stop())
	a.logger.Info("stopped")
	return err
}

// leave waits for the drain delay, and returns the error of a listener that fails
// meanwhile.
func (a *App) leave(failed <-chan error) error {
	delay := a.opts.Settings.Process.DrainDelay
	if delay > 0 && a.opts.Hurry.Err() == nil {
		a.logger.Info("shutting down: health checks fail, requests are still answered", "at_most", delay)
	}
	select {
	case <-time.After(delay):
		return nil
	case <-a.opts.Hurry.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// stop stops all parts within the drain timeout.
func (a *App) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), a.opts.Settings.Process.DrainTimeout)
	defer cancel()
	return a.parts.stop(ctx)
}

// HTTPAddr is where /healthcheck and /json are, host:port.
func (a *App) HTTPAddr() string { return a.http.addr() }
