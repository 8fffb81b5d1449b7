package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/operators/api"
	"weir/internal/settings"
	"weir/internal/settings/follow"
	"weir/internal/xds"
)

// controlPlane is the source of rules that a control plane sends. The server
// starts without them: until the first come, requests are answered UNAVAILABLE.
type controlPlane struct {
	*rules
	path     string // what the control plane is called
	client   *xds.Client
	requests <-chan os.Signal // to load the rules anew, which only the control plane can do
	serving  context.Context  // of run, which ends loads
}

// openControlPlane reads the files of TLS and prepares to ask for rules.
func (a *App) openControlPlane() (*controlPlane, error) {
	s, r := a.opts.Settings, a.rules
	options := xdsOptions(s.XDS)
	if s.XDS.UseTLS {
		files, err := follow.ClientTLS(follow.TLSOptions{
			CertFile: s.XDS.ClientCert, KeyFile: s.XDS.ClientKey, CAFile: s.XDS.ServerCA, PeerSAN: s.XDS.ServerSAN, Logger: a.logger,
		})
		if err != nil {
			return nil, fmt.Errorf("TLS to the control plane (see CONFIG_GRPC_XDS_CLIENT_TLS_CERT, _KEY and CONFIG_GRPC_XDS_SERVER_TLS_CACERT): %w", err)
		}
		registerCertificates(a.opts.Registry, "xds", files.TLS)
		a.parts.closer("TLS files of the control plane", files.Close)
		options.Credentials = files.Credentials()
	}
	c := &controlPlane{rules: r, requests: a.opts.Reload, serving: context.Background()}
	c.path = fmt.Sprintf("the control plane at %s (node %s)", s.XDS.ServerURL, s.XDS.NodeID)
	c.status.Path = c.path
	options.Headers = func() map[string]string {
		headers, _ := a.secrets.now().XDS.HeaderValues() // which have been checked
		return headers
	}
	options.Type, options.Apply, options.Refused = descriptors.ResourceType, c.apply, c.logRefused
	options.Logger, options.Registerer = a.logger, a.opts.Registry
	if s.Rules.ForceStart && !s.Rules.HealthNeedsRules {
		options.Silent = c.silent
	}
	var err error
	if c.client, err = xds.New(options); err != nil {
		return nil, fmt.Errorf("CONFIG_GRPC_XDS_SERVER_URL: %w", err)
	}
	return c, nil
}

// xdsOptions are those that need nothing but the settings.
func xdsOptions(s settings.XDS) xds.Options {
	return xds.Options{
		Server:         string(s.ServerURL),
		NodeID:         s.NodeID,
		NodeMetadata:   s.NodeMetadata,
		MaxMessageSize: s.MaxMessageSize,
		Retry:          s.RetryInterval,
		Backoff:        xds.Backoff{Initial: min(s.BackoffInitial, s.BackoffMax), Max: s.BackoffMax, Spread: s.BackoffSpread()},
	}
}

// start does not wait: the control plane may come later than this server.
func (c *controlPlane) start() error {
	c.logger.Info("waiting for rules from the control plane; until then, requests get UNAVAILABLE")
	return nil
}

// run keeps asking the control plane until ctx ends.
func (c *controlPlane) run(ctx context.Context) {
	c.serving = ctx
	var asking sync.WaitGroup
	asking.Go(func() { c.client.Run(ctx) })
	defer asking.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.requests:
			c.logger.Warn("rules not loaded", "err", c.reload(ctx))
		}
	}
}

func (c *controlPlane) reload(context.Context) error {
	return errors.New("the control plane sends rules when they change; they cannot be requested")
}

// apply lets rules serve that the control plane sent, or returns what is wrong with
// them.
func (c *controlPlane) apply(u xds.Update) error {
	if u.Type != descriptors.ResourceType {
		err := fmt.Errorf("a response of type %q is not allowed; use %s", u.Type, descriptors.ResourceType)
		c.refuse(err, u.Version)
		return err
	}
	defer c.end()
	tree, unknown, err := descriptors.LoadResources(u.Resources, c.begin(c.serving))
	if c.serving.Err() != nil {
		return errEnded
	}
	if err != nil {
		err = brief(err)
		c.refuse(err, u.Version)
		return err
	}
	c.accept(tree, api.Rules{Path: c.path, Files: len(u.Resources), Version: u.Version})
	c.logger.Info("rules loaded", "version", u.Version, "resources", len(u.Resources), "domains", tree.Domains(), "rules", tree.Rules())
	c.warn(tree.Warnings())
	for _, field := range unknown.First(mostProblems) {
		c.logger.Warn("unknown field in the rules of the control plane, ignored", "field", field.String())
	}
	if len(u.Resources) == 0 {
		c.logger.Warn("the control plane sent no rules; every request is allowed", "version", u.Version)
	}
	return nil
}

// logRefused logs why rules that the control plane sent do not serve, not as often as
// it may happen.
func (c *controlPlane) logRefused(version string, problem error) {
	c.logRefusal(problem, "version", version)
}

// silent makes the server healthy although there are no rules, because the
// control plane works and has none for this node.
func (c *controlPlane) silent() {
	if c.tree.Load() == nil {
		c.logger.Warn("the control plane has no rules for this node; until it sends some, requests get UNAVAILABLE")
		c.loaded()
	}
}

func (c *controlPlane) report() api.Rules {
	report, link := c.rules.report(), c.client.Status()
	state := "NOT connected"
	if link.Connected {
		state = "connected"
	}
	report.ControlPlane = fmt.Sprintf("%s since %s", state, link.Since.UTC().Format(time.RFC3339))
	if link.Err != nil {
		report.ControlPlane += ", the last stream ended: " + plaintext.Line(link.Err.Error())
	}
	return report
}
