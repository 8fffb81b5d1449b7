package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"weir/internal/accesslog"
	"weir/internal/app"
	"weir/internal/descriptors"
	"weir/internal/envoyconfig"
	"weir/internal/plaintext"
	"weir/internal/simulate"
)

// simulation is the command simulate.
type simulation struct {
	Rules string   `arg:"" help:"File or directory of rules."`
	Logs  []string `arg:"" name:"log" help:"Access logs, gzip or not, in any order; - is the standard input."`

	Envoy  string `required:"" placeholder:"FILE" help:"What makes descriptors of requests: Envoy's bootstrap, a dump of its routes or configuration, Istio's EnvoyFilter, or a file with domain and rate_limits."`
	Domain string `help:"Domain, if that file has none."`
	From   string `placeholder:"NAME" help:"Listener or route configuration to take, if that file has several."`

	Format string   `enum:"auto,json,envoy,istio,nginx" default:"auto" help:"Format of the logs: json, envoy (default text), istio (default text), nginx (combined), or auto, which takes each line for what it looks like."`
	Fields []string `placeholder:"NAME=FIELD" help:"Where JSON lines have what, such as time=ts,path=http.url,header:x-user=user."`

	Suggest bool   `help:"Show for each limit the amounts at which no client, 0.1 % and 1 % of clients would be denied at least once."`
	Compare string `placeholder:"OLD_RULES" help:"Show who would be denied by RULES and not by these, and the reverse."`
	Output  string `enum:"text,json" default:"text" help:"Format of the report: text or json."`
	HTML    string `name:"html" placeholder:"FILE" help:"Write the report to this file, too, as a page with drawings."`
	Denied  string `placeholder:"FILE" help:"Write a line to this file for each request that would be denied: its log and line, the rule, the limit and the client."`

	likeServer
}

// run replays the logs and prints the report.
func (s simulation) run(ctx context.Context, stdout, stderr io.Writer) int {
	err := s.report(ctx, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "weir: %s\n", plaintext.Lines(err.Error()))
		return exitUsage
	}
	return exitOK
}

func (s simulation) report(ctx context.Context, stdout, stderr io.Writer) (err error) {
	opts, err := s.options()
	if err != nil {
		return err
	}
	var outputs files
	defer func() { err = errors.Join(err, outputs.close()) }()
	page, err := outputs.create(s.HTML)
	if err != nil {
		return err
	}
	if opts.Denied, err = outputs.create(s.Denied); err != nil {
		return err
	}
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		opts.Progress = func(p simulate.Progress) { fmt.Fprintf(stderr, "\r\x1b[K%s", p.Line()) }
		defer fmt.Fprint(stderr, "\r\x1b[K")
	}
	report, err := simulate.Run(ctx, opts)
	if err != nil {
		return err
	}
	if page != nil {
		if err := report.WriteHTML(page); err != nil {
			return err
		}
	}
	return writeResult(stdout, s.Output, report)
}

// options reads all that the command names but the logs.
func (s simulation) options() (opts simulate.Options, err error) {
	format, _ := accesslog.ParseFormat(s.Format)
	opts = simulate.Options{Logs: s.Logs, Format: format, Plan: s.likeServer.options(), Suggest: s.Suggest}
	if opts.Mapping, err = accesslog.ParseMapping(s.Fields); err != nil {
		return opts, fmt.Errorf("--fields: %w", err)
	}
	data, err := descriptors.ReadFile(s.Envoy)
	if err != nil {
		return opts, err
	}
	if opts.Envoy, err = envoyconfig.Load(data, s.Envoy, envoyconfig.Options{Domain: s.Domain, From: s.From}); err != nil {
		return opts, err
	}
	if opts.Rules, err = s.tree(s.Rules); err == nil && s.Compare != "" {
		opts.Old, err = s.tree(s.Compare)
	}
	return opts, err
}

// tree reads rules.
func (s simulation) tree(path string) (*descriptors.Tree, error) {
	files, _, err := descriptors.ReadFiles(path)
	if err == nil && len(files) == 0 {
		err = descriptors.NoFiles(path)
	}
	if err != nil {
		return nil, err
	}
	tree, err := descriptors.Load(files, app.RuleOptions(s.Reading))
	if err != nil {
		return nil, fmt.Errorf("invalid rules:\n%w", err)
	}
	return tree, nil
}

// files are those that a command writes.
type files []func() error

// create creates a file, unless its name is "".
func (f *files) create(name string) (io.Writer, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	b := bufio.NewWriter(file)
	*f = append(*f, func() error { return errors.Join(b.Flush(), file.Close()) })
	return b, nil
}

func (f files) close() (err error) {
	for _, c := range f {
		err = errors.Join(err, c())
	}
	return err
}
