package tlsfiles

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Options say which files make up one side of TLS and what is asked of the
// other. Paths that are empty are not used.
type Options struct {
	// CertFile and KeyFile hold the certificate shown to the peer, with
	// intermediate ones after it, and its key. A server needs them.
	CertFile, KeyFile string
	// CAFile holds the certificates of the authorities that the peer's must come
	// from. Without it a server asks for no certificate, and a client trusts the
	// authorities of the system.
	CAFile string
	// PeerSAN is a subject alternative name that the peer's certificate must
	// hold: a DNS name, an IP address, a URI or an email address. For a client it
	// takes the place of the host that is dialled; for a server it needs CAFile.
	PeerSAN string
	// SkipHostnameVerification makes a client accept any name in the server's
	// certificate, which must still come from a trusted authority.
	SkipHostnameVerification bool
	// Interval is how often the files are compared, 5 s if it is 0.
	Interval time.Duration
	// Logger hears of files that change and of gRPC clients that are refused; nil
	// drops that.
	Logger *slog.Logger
}

const defaultInterval = 5 * time.Second

// Config is one side of TLS. It follows its files until it is closed.
type Config struct {
	opts    Options
	make    func(material) *tls.Config
	current atomic.Pointer[tls.Config]
	seen    [sha256.Size]byte // what the last look at the files saw
	refused atomic.Int64      // when a client was last logged, in seconds
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

// Server reads the files of a server. It speaks TLS 1.2 or later; if CAFile is
// set, clients must show a certificate. The error names the file that is
// missing or bad.
func Server(opts Options) (*Config, error) {
	switch {
	case opts.CertFile == "":
		return nil, errors.New("a server needs a certificate file and a key file")
	case opts.PeerSAN != "" && opts.CAFile == "":
		return nil, fmt.Errorf("the name %q is to be in certificates of clients, but there is no file of authorities to check these against", opts.PeerSAN)
	}
	return open(opts, func(m material) *tls.Config { return serverConfig(m, opts.PeerSAN) })
}

// Client reads the files of a client, of which there may be none. It speaks TLS
// 1.2 or later. The error names the file that is missing or bad.
func Client(opts Options) (*Config, error) {
	return open(opts, func(m material) *tls.Config { return clientConfig(m, opts) })
}

func open(opts Options, makeConfig func(material) *tls.Config) (*Config, error) {
	if (opts.CertFile == "") != (opts.KeyFile == "") {
		return nil, fmt.Errorf("a certificate and its key go together, but there is only %q", opts.CertFile+opts.KeyFile)
	}
	if opts.Interval == 0 {
		opts.Interval = defaultInterval
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Config{opts: opts, make: makeConfig}
	found, err := c.look()
	if err != nil {
		return nil, err
	}
	c.current.Store(found)
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	if opts.CertFile != "" || opts.CAFile != "" {
		c.ended.Go(func() { c.follow(ctx) })
	}
	return c, nil
}

// TLS is the configuration as of the newest good files, for the next
// connection. Ask for it anew for each: what it returned once does not change.
// It is shared and must not be written to; tls.Dialer and tls.Server do not.
func (c *Config) TLS() *tls.Config { return c.current.Load() }

// Close ends the watch over the files. TLS goes on returning the last
// configuration.
func (c *Config) Close() {
	c.stop()
	c.ended.Wait()
}
