package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"weir/internal/descriptors"
	"weir/internal/offline/bench"
	"weir/internal/offline/envoyconfig"
	"weir/internal/offline/simulate"
	"weir/internal/offline/simulate/accesslog"
	"weir/internal/plan/explain"
	"weir/internal/settings/follow"
)

type simulation struct {
	Rules string   `arg:"" help:"File or directory of rules."`
	Logs  []string `arg:"" name:"log" help:"Access logs, gzipped or not, in any order; - is the standard input."`

	Envoy string `required:"" placeholder:"FILE" help:"How requests become descriptors: Envoy's bootstrap, a dump of its routes or configuration, Istio's EnvoyFilter, or a file with domain and rate_limits."`
	envoyconfig.Options

	Format accesslog.Format `enum:"auto,json,envoy,istio,nginx" default:"auto" help:"Format of the logs: json, envoy (default text), istio (default text), nginx (combined), or auto, which detects the format of each line."`
	Fields []string         `placeholder:"NAME=FIELD" help:"Names of the fields in JSON lines, such as end_time=ts,duration_seconds=rt,path=http.url,header:x-user=user."`

	Suggest suggestion `placeholder:"SHARE" help:"For each limit, show the smallest that would ever deny 0 %, 0.1 % and 1 % of clients, and this share if given, such as 0.05."`
	Compare string     `placeholder:"OLD_RULES" help:"Show who would be denied by RULES but not by these, and the reverse."`
	Output  string     `enum:"text,json" default:"text" help:"Format of the report: text or json."`
	HTML    string     `name:"html" placeholder:"FILE" help:"Also write the report to this file, as an HTML page with charts. It implies --suggest."`
	Denied  string     `placeholder:"FILE" help:"Write each request that would be denied to this file: its log and line, the rule, the limit and the client."`

	likeServer
}

// suggestion is the flag --suggest. It contains the shares to suggest limits for, or nil without the flag.
type suggestion struct{ shares []float64 }

// usualShares are the shares of clients for which --suggest always suggests limits.
var usualShares = []float64{0, 0.001, 0.01}

// Decode implements kong.MapperValue.
func (s *suggestion) Decode(ctx *kong.DecodeContext) error {
	s.shares = usualShares
	token := ctx.Scan.Peek()
	share, err := strconv.ParseFloat(token.String(), 64)
	switch {
	case err == nil && share >= 0 && share < 1:
		ctx.Scan.Pop()
		s.shares = append(slices.Clone(usualShares), share)
		slices.Sort(s.shares)
		s.shares = slices.Compact(s.shares)
	case err == nil || token.Type == kong.FlagValueToken:
		return fmt.Errorf("%q is not allowed; use a share of clients from 0 to 1, such as 0.05 for 5 %%", token)
	}
	return nil
}

func (s simulation) Run(ctx context.Context, p *program) error {
	opts, err := s.options()
	if err != nil {
		return err
	}
	if s.Denied != "" {
		list, err := os.CreateTemp("", "weir") // not in memory, because the list may be of any length
		if err != nil {
			return err
		}
		defer list.Close()
		_ = os.Remove(list.Name()) // the open file stays usable
		opts.Denied = list
	}
	var hide func()
	opts.Progress, hide = p.progress("lines")
	report, err := simulate.Run(ctx, opts)
	hide()
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted, no report was written")
	case err != nil:
		return err
	}
	if err := p.print(s.Output, report, true); err != nil {
		return err
	}
	err = errors.Join(writeFile(s.HTML, report.WriteHTML), writeFile(s.Denied, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(opts.Denied.(*os.File), 0, math.MaxInt64))
		return err
	}))
	return errors.Join(err, report.Err())
}

// progress returns two functions: show shows the progress on a line of the terminal, and hide clears
// the line. A share of 0 means that the share is unknown. If stderr is not a terminal, show is nil.
func (p *program) progress(of string) (show func(done int64, share float64), hide func()) {
	if !isTerminal(p.stderr) {
		return nil, func() {}
	}
	const clearLine = "\r\x1b[K"
	began := time.Now()
	show = func(done int64, share float64) {
		fmt.Fprintf(p.stderr, "%s%d %s", clearLine, done, of)
		if share > 0 {
			left := time.Duration(float64(time.Since(began)) * (1/share - 1)).Round(time.Second)
			fmt.Fprintf(p.stderr, ", %.0f %%, %v left", 100*share, left)
		}
	}
	return show, func() { fmt.Fprint(p.stderr, clearLine) }
}

// options checks the flags and reads all files that they name, except the logs.
func (s simulation) options() (opts simulate.Options, err error) {
	opts = simulate.Options{Logs: s.Logs, Format: s.Format, Plan: s.likeServer.options(), Shares: s.Suggest.shares}
	if s.HTML != "" && opts.Shares == nil {
		opts.Shares = usualShares
	}
	read := append(slices.Clone(s.Logs), s.Envoy)
	if len(s.Fields) > 0 && s.Format != accesslog.Auto && s.Format != accesslog.JSON {
		return opts, fmt.Errorf("--fields applies to JSON lines only, but --format is %s", s.Format)
	}
	if opts.Mapping, err = accesslog.ParseMapping(s.Fields); err != nil {
		return opts, fmt.Errorf("--fields: %w", err)
	}
	if i := slices.Index(read, "-"); i >= 0 && slices.Contains(read[i+1:], "-") {
		return opts, errors.New("the standard input (-) can be read only once")
	}
	if opts.Envoy, err = readEnvoy(s.Envoy, s.Options); err != nil {
		return opts, err
	}
	trees := []**descriptors.Tree{&opts.Rules, &opts.Old}
	for i, path := range []string{s.Rules, s.Compare} {
		if path == "" {
			continue
		}
		files, _, err := descriptors.ReadFiles(path)
		if err == nil {
			*trees[i], err = s.load(files, path)
		}
		if err != nil {
			return opts, err
		}
		for _, f := range files {
			read = append(read, f.Name)
		}
	}
	return opts, cmp.Or(checkDistinct("--html", s.HTML, read...), checkDistinct("--denied", s.Denied, append(read, s.HTML)...))
}

type descriptorsOf struct {
	File string `arg:"" help:"Configuration of Envoy, in YAML or JSON: a bootstrap, a config dump or route dump of the admin port, route configurations, manifests with Istio's EnvoyFilter, or a mapping with a domain and rate_limits. - is the standard input."`

	Method        string     `default:"GET" help:"Method of the request."`
	Scheme        string     `default:"http" help:"Scheme of the request."`
	Authority     string     `default:"localhost" help:"Host of the request, with its port if it has one."`
	Path          anyBytes   `default:"/" help:"Path of the request, with its query."`
	Header        []anyBytes `placeholder:"NAME:VALUE" sep:"none" help:"Header of the request. Repeat the flag for several headers."`
	RemoteAddress string     `help:"Address of the client without port, as Envoy trusts it: %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% in its log. By default the one that Envoy derives from the header x-forwarded-for and a connection from 127.0.0.1."`
	Route         string     `help:"Name of the route that Envoy chose, for patches of an EnvoyFilter that name one."`

	envoyconfig.Options
	Output string `enum:"text,json" default:"text" help:"Format of the answer: text or json."`
}

func (d descriptorsOf) Run(p *program) error {
	request := envoyconfig.Request{
		Headers: []envoyconfig.Header{
			{Name: ":method", Value: d.Method}, {Name: ":scheme", Value: d.Scheme}, {Name: ":authority", Value: d.Authority}, {Name: ":path", Value: string(d.Path)},
		},
		RemoteAddress: d.RemoteAddress, Route: d.Route,
	}
	if !strings.HasPrefix(string(d.Path), "/") {
		return fmt.Errorf("--path: %q does not begin with /", string(d.Path))
	}
	for _, h := range d.Header {
		name, value, found := strings.Cut(string(h), ":")
		name = strings.ToLower(strings.TrimSpace(name))
		switch {
		case !found || name == "":
			return fmt.Errorf("header %q: use NAME:VALUE, such as x-user:alice", string(h))
		case name == "host":
			return errors.New("header host: use --authority instead")
		}
		request.Headers = append(request.Headers, envoyconfig.Header{Name: name, Value: strings.Trim(value, " \t")})
	}
	config, err := readEnvoy(d.File, d.Options)
	if err != nil {
		return err
	}
	if request.RemoteAddress == "" {
		request.RemoteAddress = config.Client(request.Headers, "127.0.0.1")
	}
	command := "weir explain --config PATH" // Envoy's configuration does not contain this path
	if os.Getenv("CONFIG_PATH")+os.Getenv("RUNTIME_ROOT")+os.Getenv("RUNTIME_SUBDIRECTORY") != "" {
		command = "weir explain"
	}
	sent := config.Report(request, command)
	if d.Output == "text" {
		for _, note := range sent.Notes {
			fmt.Fprintf(p.stderr, "note: %v\n", note)
		}
	}
	return p.print(d.Output, sent, len(sent.Descriptors) > 0)
}

// readEnvoy reads a configuration of Envoy. A dash names the standard input.
func readEnvoy(name string, o envoyconfig.Options) (*envoyconfig.Config, error) {
	file := name
	if name == "-" {
		file, name = "/dev/stdin", "stdin"
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	config, err := envoyconfig.Load(data, name, o)
	if err != nil {
		return nil, fmt.Errorf("invalid Envoy configuration:\n%w", err)
	}
	return config, nil
}

type benchmark struct {
	bench.Options
	Descriptor []explain.Entries `default:"user={}" sep:"none" help:"Entries of a descriptor, such as user={},path=/login, where {} is the number of a key. Repeat the flag for requests with several descriptors."`
	Callers    *int              `placeholder:"N" help:"Maximum number of requests in flight, never more than --requests. The default is 64, or 512 with --rate."`
	Warmup     *time.Duration    `placeholder:"DURATION" help:"Time at the start that is not measured. The default is a tenth of the duration, at most 1s; none with --requests."`

	benchTLS `embed:""`
	Output   string `enum:"text,json" default:"text" help:"Format of the result: text or json."`
}

// benchTLS contains the flags of the connections to the servers. A benchmark reads the files
// once, while a server follows changes to its certificate files.
type benchTLS struct {
	TLS        bool   `name:"tls" help:"Connect with TLS. The other TLS flags imply it. Servers need a certificate from one of the system's authorities, or from --tls-ca."`
	CA         string `name:"tls-ca" placeholder:"FILE" help:"Trusted certificate authorities, in PEM form."`
	Cert       string `name:"tls-cert" and:"tls-pair" placeholder:"FILE" help:"Client certificate in PEM form, followed by intermediate ones."`
	Key        string `name:"tls-key" and:"tls-pair" placeholder:"FILE" help:"Key of that certificate, in PEM form."`
	ServerName string `name:"tls-server-name" placeholder:"NAME" help:"Name that the certificates of servers must have, instead of the host in their address."`
}

func (b benchmark) Run(ctx context.Context, p *program) error {
	opts, callers, warmup := b.Options, 64, min(b.Duration/10, time.Second)
	if b.Rate > 0 {
		callers = 512
	}
	if b.Requests > 0 {
		warmup = 0 // otherwise, all requests might be sent before the measurement begins
	}
	opts.Callers, opts.Warmup = *cmp.Or(b.Callers, &callers), *cmp.Or(b.Warmup, &warmup)
	if b.benchTLS != (benchTLS{}) {
		var err error
		if opts.TLS, err = readTLS(follow.TLSOptions{CertFile: b.Cert, KeyFile: b.Key, CAFile: b.CA}); err != nil {
			return err
		}
		opts.TLS.ServerName = b.ServerName
	}
	for _, descriptor := range b.Descriptor {
		var list []bench.Entry
		for _, e := range descriptor {
			list = append(list, bench.Entry(e))
		}
		opts.Descriptors = append(opts.Descriptors, list)
	}
	var hide func()
	opts.Progress, hide = p.progress("answers")
	result, err := bench.Run(ctx, opts)
	hide()
	switch {
	case err != nil:
		return err
	case result.Measured() == 0:
		fmt.Fprintf(p.stderr, "weir: nothing was measured: all %d requests were sent during the warm-up of %v\n", result.SentWithWarmup, opts.Warmup)
		return exit(exitFailed)
	}
	return p.print(b.Output, result, result.Failed+result.Unsent == 0)
}

// readTLS reads a client's certificate, key and authorities once. It does not follow changes to the files.
func readTLS(o follow.TLSOptions) (*tls.Config, error) {
	o.Logger = slog.New(slog.DiscardHandler)
	files, err := follow.OpenTLS(o)
	if err != nil {
		return nil, err
	}
	return files.TLS().Clone(), nil
}
