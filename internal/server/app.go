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
	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/operators"
	"weir/internal/operators/api"
	"weir/internal/plan"
	"weir/internal/rlqs"
	"weir/internal/rls"
	"weir/internal/settings"
	"weir/internal/settings/follow"
	"weir/internal/telemetry"
)

// Options configure an App. All fields but Stdout and Reload are required.
type Options struct {
	Settings settings.Settings
	Logger   *slog.Logger
	// Stdout receives the decision log if DECISION_LOG_TO is stdout.
	Stdout io.Writer
	// Registry receives all metrics, and the metrics listener shows them.
	Registry *prometheus.Registry
	// Build is shown in the log, on the status page and by the metric weir_build_info.
	Build Build
	// Reload delivers signals. Every signal reloads the rules.
	Reload <-chan os.Signal
	// When Hurry is done, the drain delay ends. If Hurry is done before the context of Run, there
	// is no delay. Hurry also cancels the commands that New runs to read secrets.
	Hurry context.Context
}

// App is a server, made by New. Run can be called only once.
type App struct {
	opts           Options // with the secrets that were read at the start
	life           *lifecycle
	health         *health
	source         source
	operators      *api.Server
	grpc, http     *component
	debug, metrics *component // nil if not bound
}

// New loads the rules, opens the store and binds all listeners, but serves nothing yet. If the rules
// are missing or invalid, the error lists the problems.
func New(opts Options) (*App, error) {
	life := new(lifecycle)
	a, err := build(opts, life)
	if err != nil {
		return nil, errors.Join(err, life.stop(opts.Settings.Process.DrainTimeout))
	}
	return a, nil
}

// build makes an App. Each step adds its components to life, so that New can stop them if a later
// step fails. Components stop in the reverse order of their creation.
func build(o Options, life *lifecycle) (*App, error) {
	started, health := time.Now(), newHealth()
	o.Logger.Info("starting", "version", o.Build.String())
	for _, w := range o.Settings.Warnings {
		o.Logger.Warn("a variable has no effect", "variable", w.Variable, "value", w.Value, "instead", w.Instead)
	}
	for _, note := range plan.SwitchedOn(o.Settings.Answers.ShadowMode, o.Settings.Answers.QuotaMode) {
		o.Logger.Warn("a switch changes every response", "effect", note)
	}
	limitMemory(o.Logger)
	p, err := openParts(&o, life, health.setStoreFound)
	if err != nil {
		return nil, err
	}
	s, secrets, store := o.Settings, p.secrets, p.store
	serviceMetrics := prometheus.NewRegistry() // metrics that are also sent to statsd
	o.Registry.MustRegister(serviceMetrics)
	usage := telemetry.New(o.Registry, o.Logger, float32(s.Metrics.NearLimitRatio))
	rules := newRules(RuleOptions(s.Rules.Reading), usage.Keep, health.setRulesLoaded, o.Logger, serviceMetrics)
	arrivals := newArrivals()
	rules.tuner.scarce = arrivals.scarce
	source, err := openSource(o, life, secrets, rules)
	if err != nil {
		return nil, err
	}
	planning := PlanOptions(s.Rules.Reading, s.Store.Charging, s.Answers.Modes)
	planning.Keys = p.keys
	registerProcess(o.Registry, o.Build, func() []string { return secrets.refused(store) })
	desk := openDesk(o, life, store, rules, planning, started, health.setAssignedRead)
	life.background("usage", usage.Run)
	addStatsd(o, life, usage, serviceMetrics)
	decider := &plan.Decider{
		Planner: plan.New(desk.Plan), Rules: rules.tree.Load,
		Store: store, Spread: limiter.NewRetrySpread(time.Now), Failover: store.failover, Usage: usage,
		Costly: rate.NewLimiter(rate.Limit(descriptors.SharedWork), int(descriptors.MaxWork)),
	}
	events := openEvents(o, life, secrets, store)
	requests := newService(o, decider, operators.Observer{
		Recorder: desk.Recorder, Spending: desk.Spending, Events: events, Log: p.decisions, Hashed: planning.Keys.Digests,
	}, serviceMetrics)
	quotas := newQuotas(o, life, store, rules, planning.Keys, desk, started)
	rates := newRates(func() totals { return totalsOf(requests, store, p.decisions, events) })
	life.background("rates", rates.run)
	bound, err := listen(s, o.Logger)
	if err != nil {
		return nil, err
	}
	port := &debugPort{options: o, started: started, health: health, secrets: secrets, store: store, rules: rules, source: source, desk: desk, usage: usage, rates: rates}
	// Concurrent readers share one page, because a page may be large.
	metrics := api.NewPage(promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{DisableCompression: true}), func() time.Time { return time.Time{} })
	a := &App{opts: o, life: life, health: health, source: source, operators: port.server(metrics)}
	mux := http.NewServeMux()
	mux.Handle(s.Listen.PrometheusPath, metrics)
	// The gRPC server comes last, so it stops first, and the other listeners still answer while it drains.
	a.metrics = life.add(httpServer("metrics", bound["metrics"], mux, 1024, o.Logger))
	a.debug = life.add(httpServer("debug", bound["debug"], a.operators.Handler(), 1024, o.Logger))
	port.begin(life, a.debug.addr)
	a.http = life.add(httpServer("HTTP", bound["HTTP"], httpHandler(health.err, requests.JSONHandler()), 4096, o.Logger))
	a.grpc = life.add(newGRPC(o, life, bound["gRPC"], p.transport, p.tracing, health, arrivals, requests, quotas))
	return a, nil
}

// parts are the parts of a server that depend on the settings alone.
type parts struct {
	secrets   *secrets
	store     *store // nil if the settings or their secrets are invalid
	keys      limiter.Keys
	transport credentials.TransportCredentials
	tracing   *sdktrace.TracerProvider
	decisions *operators.DecisionLog
}

// openParts opens the parts of a server, and sets the secrets in o.Settings. If a part fails, it
// still opens the others, and the error lists all problems. It passes found to openStore.
func openParts(o *Options, life *lifecycle, found func(bool)) (p parts, err error) {
	var errs [5]error
	if p.secrets, errs[0] = openSecrets(*o, life); p.secrets != nil {
		o.Settings = p.secrets.settings
		if o.Settings.Check() == nil { // otherwise addresses or passwords are invalid
			p.store, errs[1] = openStore(*o, life, p.secrets, found)
		}
	}
	s := o.Settings
	p.keys, errs[2] = NewKeys(s.Store.Keys, s.Redis.Main.Named() && s.Redis.Clustered())
	p.transport, errs[3] = openCredentials(*o, life, p.secrets)
	p.tracing, p.decisions, errs[4] = openTelemetry(*o, life)
	return p, errors.Join(errs[:]...)
}

// openSource opens the source of the rules. If the rules are in files, it loads them before it returns.
func openSource(o Options, life *lifecycle, secrets *secrets, r *rules) (from source, err error) {
	s := o.Settings
	if s.XDS.Enabled() {
		if s.Rules.Config != "" {
			o.Logger.Warn("rules come from the control plane; --config (CONFIG_PATH) is ignored", "path", s.Rules.Config)
		}
		from, err = openControlPlane(o, life, secrets, r)
	} else {
		from, err = openFiles(r, s.Rules)
	}
	if err != nil {
		return nil, err
	}
	life.background("memory", r.tuner.run)
	life.background("rules", from.run)
	life.background("reload", func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-o.Reload:
				_ = from.reload() // reload logs its error
			}
		}
	})
	return from, nil
}

// newService returns the service that answers requests with the decisions of decider.
func newService(o Options, decider *plan.Decider, observer operators.Observer, reg prometheus.Registerer) *rls.Service {
	s := o.Settings.Answers
	return rls.New(rls.Options{
		Decider:         decider,
		Observe:         observer.Observe,
		ResponseHeaders: headers(s.ResponseHeaders, s.LimitHeader, s.RemainingHeader, s.ResetHeader),
		RequestHeaders:  headers(s.RequestHeaders, s.RequestLimitHeader, s.RequestRemainingHeader, s.RequestResetHeader),
		DynamicMetadata: s.DynamicMetadata,
		MaxConcurrent:   s.MaxConcurrentRequests,
		Timeout:         s.RequestTimeout,
		Registerer:      reg,
		Logger:          o.Logger,
	})
}

// newQuotas returns the service that divides limits among Envoys.
func newQuotas(o Options, life *lifecycle, store *store, rules *rules, keys limiter.Keys, desk *operators.Desk, started time.Time) *rlqs.Pool {
	quotas := rlqs.NewPool(started, rlqs.Options{
		Rules: rules.tree.Load, Keys: keys, Life: o.Settings.Answers.QuotaShareLife, Store: store.shares,
		Failure: FailureMode(o.Settings.Failure), Servers: func() int { return 1 + len(desk.Servers.Others()) }, Logger: o.Logger,
	})
	o.Registry.MustRegister(quotas)
	desk.Shares = quotas.Shares
	life.background("quotas", quotas.Run)
	return quotas
}

func headers(on bool, limit, remaining, reset string) rls.Headers {
	if !on {
		return rls.Headers{}
	}
	return rls.Headers{Limit: limit, Remaining: remaining, Reset: reset}
}

// openCredentials returns the credentials of the gRPC listener, without encryption if TLS is off.
func openCredentials(o Options, life *lifecycle, secrets *secrets) (credentials.TransportCredentials, error) {
	tls := o.Settings.TLS
	if !tls.On {
		return insecure.NewCredentials(), nil
	}
	files, err := openTLS(o, life, secrets, "grpc", follow.TLSOptions{Server: true, CertFile: tls.Cert, KeyFile: tls.Key, CAFile: tls.ClientCA, PeerSAN: tls.ClientSAN, Refused: countRefused(o.Registry)})
	if err != nil {
		return nil, fmt.Errorf("TLS of the gRPC listener (see GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY and GRPC_CLIENT_TLS_CACERT): %w", err)
	}
	return files.Credentials(), nil
}

// openTLS reads the TLS files of the named connection, and registers the metrics of its certificate.
// While the server runs, it reads the files again when they change.
func openTLS(o Options, life *lifecycle, secrets *secrets, name string, options follow.TLSOptions) (*follow.TLS, error) {
	options.Logger = o.Logger
	files, err := follow.OpenTLS(options)
	if err != nil {
		return nil, err
	}
	life.background("TLS files of "+name, files.Run)
	registerCertificate(o.Registry, name, files)
	if secrets != nil { // nil if the secrets are invalid
		secrets.tls = append(secrets.tls, connection{name, files})
	}
	return files, nil
}

// Run serves until ctx is done. Then health checks fail, so that clients choose another server, and
// requests are still answered for the drain delay, or until Hurry is done. Then, or if a listener
// fails, Run drains: it refuses new connections, and gives requests in flight the drain timeout to
// finish. The error names failed listeners, interrupted requests, and components that did not end.
func (a *App) Run(ctx context.Context) error {
	failed := a.life.start()
	a.opts.Logger.Info("listening", "grpc", a.grpc.addr(), "http", a.http.addr(), "debug", a.debug.addr(), "metrics", a.metrics.addr())
	if at, err := netip.ParseAddrPort(a.debug.addr()); err == nil && !at.Addr().IsLoopback() {
		a.opts.Logger.Info("the debug port is open to other machines; DEBUG_HOST restricts it", "debug", at.String())
	}
	var err error
	select {
	case <-ctx.Done():
		a.health.setLeaving()
		err = a.leave(failed)
	case err = <-failed:
	}
	a.health.setDraining()
	a.opts.Logger.Info("draining", "timeout", a.opts.Settings.Process.DrainTimeout)
	err = errors.Join(err, a.life.stop(a.opts.Settings.Process.DrainTimeout))
	a.opts.Logger.Info("stopped")
	return err
}

// leave waits for the drain delay, or until Hurry is done. If a listener fails, it returns the error.
func (a *App) leave(failed <-chan error) error {
	delay := a.opts.Settings.Process.DrainDelay
	if delay > 0 && a.opts.Hurry.Err() == nil {
		a.opts.Logger.Info("shutting down: health checks fail, requests are still answered", "at_most", delay)
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

// HTTPAddr returns the address of /healthcheck and /json, host:port.
func (a *App) HTTPAddr() string { return a.http.addr() }
