package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/operators/api"
	"weir/internal/settings"
	"weir/internal/settings/follow"
	"weir/internal/xds"
)

// controlPlane is the source of rules from a control plane. The server starts without rules, and
// answers requests with UNAVAILABLE until the first rules arrive.
type controlPlane struct {
	*rules
	path   string // describes the control plane in logs and on the status page
	client *xds.Client
}

// openControlPlane reads the TLS files and makes a client, which connects when run is called. The
// control plane may start after this server.
func openControlPlane(o Options, life *lifecycle, secrets *secrets, r *rules) (c *controlPlane, err error) {
	s := o.Settings
	c = &controlPlane{rules: r}
	c.path = fmt.Sprintf("the control plane at %s (node %s)", s.XDS.ServerURL, s.XDS.NodeID)
	c.status.Path = c.path
	options := xdsOptions(s.XDS)
	options.Credentials = insecure.NewCredentials()
	if s.XDS.UseTLS {
		files, err := openTLS(o, life, secrets, "xds", follow.TLSOptions{
			CertFile: s.XDS.ClientCert, KeyFile: s.XDS.ClientKey, CAFile: s.XDS.ServerCA, PeerSAN: s.XDS.ServerSAN,
		})
		if err != nil {
			return nil, fmt.Errorf("TLS to the control plane (see CONFIG_GRPC_XDS_CLIENT_TLS_CERT, _KEY and CONFIG_GRPC_XDS_SERVER_TLS_CACERT): %w", err)
		}
		options.Credentials = files.Credentials()
	}
	options.Headers = func() map[string]string {
		headers, _ := secrets.now().XDS.HeaderValues() // checked at the start and at each change
		return headers
	}
	options.Type, options.Apply = descriptors.ResourceType, c.apply
	options.Logger, options.Registerer = o.Logger, o.Registry
	if s.Rules.ForceStart && !s.Rules.HealthNeedsRules {
		options.Silent = sync.OnceFunc(c.silent)
	}
	if c.client, err = xds.New(options); err != nil {
		return nil, fmt.Errorf("CONFIG_GRPC_XDS_SERVER_URL: %w", err)
	}
	c.logger.Info("waiting for rules from the control plane; until then, requests get UNAVAILABLE")
	return c, nil
}

// xdsOptions returns the options that follow from the settings alone.
func xdsOptions(s settings.XDS) xds.Options {
	return xds.Options{
		Server:         s.ServerURL,
		NodeID:         s.NodeID,
		NodeMetadata:   s.NodeMetadata,
		MaxMessageSize: s.MaxMessageSize,
		Retry:          s.RetryInterval,
		BackoffInitial: min(s.BackoffInitial, s.BackoffMax),
		BackoffMax:     s.BackoffMax,
		BackoffSpread:  s.BackoffSpread(),
	}
}

func (c *controlPlane) run(ctx context.Context) { c.client.Run(ctx) }

func (c *controlPlane) reload() error {
	err := errors.New("the control plane sends rules when they change; they cannot be requested")
	c.logger.Warn("rules not loaded", "err", err)
	return err
}

// maxNamed is the maximum length in bytes of the control plane's versions, types and errors in logs
// and on pages.
const maxNamed = 256

// apply loads the rules in u, or returns an error if they are invalid.
func (c *controlPlane) apply(ctx context.Context, u xds.Update) error {
	u.Version, u.Type = plaintext.Cut(u.Version, maxNamed), plaintext.Cut(u.Type, maxNamed)
	var contents [][]byte
	for _, resource := range u.Resources {
		contents = append(contents, resource.GetValue())
	}
	err := c.load(ctx, api.Rules{Path: c.path, Files: len(u.Resources), Version: u.Version, Hash: shortHash(contents...)}, func(o descriptors.Options) (*descriptors.Tree, error) {
		if u.Type != descriptors.ResourceType {
			return nil, fmt.Errorf("a response of type %q is not allowed; use %s", u.Type, descriptors.ResourceType)
		}
		return descriptors.LoadResources(u.Resources, o)
	})
	if err != nil {
		if ctx.Err() == nil {
			c.logRefusal(err, "version", u.Version)
		}
		return err
	}
	if len(u.Resources) == 0 {
		c.logger.Warn("the control plane sent no rules; every request is allowed", "version", u.Version)
	}
	return nil
}

// silent makes the server healthy without rules, because the control plane works but has none for
// this node.
func (c *controlPlane) silent() {
	if c.tree.Load() == nil {
		c.logger.Warn("the control plane has no rules for this node; until it sends some, requests get UNAVAILABLE")
		c.loaded()
	}
}

func (c *controlPlane) report() api.Rules {
	report, link := c.rules.report(), c.client.Status()
	state := "NOT connected"
	switch {
	case link.Connected && report.LoadedAt.IsZero():
		state = "connected, no rules yet,"
	case link.Connected:
		state = "connected"
	default:
		report.AwaySince = link.Since.UTC()
	}
	report.ControlPlane = fmt.Sprintf("%s since %s", state, link.Since.UTC().Format(time.RFC3339))
	if link.Err != nil {
		report.ControlPlane += ", the last stream ended: " + plaintext.Line(plaintext.Cut(link.Err.Error(), maxNamed))
	}
	return report
}
