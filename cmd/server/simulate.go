package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/term"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/offline/simulate"
	"weir/internal/offline/simulate/accesslog"
	"weir/internal/server"
)

// simulation is the command simulate.
type simulation struct {
	Rules string   `arg:"" help:"File or directory of rules."`
	Logs  []string `arg:"" name:"log" help:"Access logs, gzip or not, in any order; - is the standard input."`

	Envoy string `required:"" placeholder:"FILE" help:"What makes descriptors of requests: Envoy's bootstrap, a dump of its routes or configuration, Istio's EnvoyFilter, or a file with domain and rate_limits."`
	fromEnvoy

	Format string   `enum:"auto,json,envoy,istio,nginx" default:"auto" help:"Format of the logs: json, envoy (default text), istio (default text), nginx (combined), or auto, which takes each line for what it looks like."`
	Fields []string `placeholder:"NAME=FIELD" help:"Where JSON lines have what, such as end_time=ts,duration_seconds=rt,path=http.url,header:x-user=user."`

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

func (s simulation) report(ctx context.Context, stdout, stderr io.Writer) error {
	var opts simulate.Options
	var outputs outputFiles
	defer outputs.discard()
	err := within(ctx, grace, func() (err error) { // reading the standard input may never end
		opts, outputs.inputs, err = s.options()
		return err
	})
	if err != nil {
		return err
	}
	page, err := outputs.create("--html", s.HTML)
	if err != nil {
		return err
	}
	denied, err := outputs.create("--denied", s.Denied)
	if err != nil {
		return err
	}
	if denied != nil {
		opts.Denied = denied
	}
	const clearLine = "\r\x1b[K"
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		opts.Progress = func(p simulate.Progress) { fmt.Fprint(stderr, clearLine, p.Line()) }
	}
	var report *simulate.Report
	err = within(ctx, grace, func() (err error) {
		report, err = simulate.Run(ctx, opts)
		return err
	})
	if opts.Progress != nil {
		fmt.Fprint(stderr, clearLine)
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted, there is no report")
	case err != nil:
		return err
	}
	if page != nil {
		if err := report.WriteHTML(page); err != nil {
			return err
		}
	}
	if err := outputs.finish(); err != nil {
		return err
	}
	if err := writeResult(stdout, s.Output, report); err != nil {
		return err
	}
	return report.Err()
}

// options reads all that the command names but the logs. inputs are the files that are read.
func (s simulation) options() (opts simulate.Options, inputs []string, err error) {
	format, _ := accesslog.ParseFormat(s.Format)
	opts = simulate.Options{Logs: s.Logs, Format: format, Plan: s.likeServer.options(), Suggest: s.Suggest}
	inputs = append(slices.Clone(s.Logs), s.Envoy)
	if len(s.Fields) > 0 && format != accesslog.Auto && format != accesslog.JSON {
		return opts, nil, fmt.Errorf("--fields is for JSON lines, and the format is %s", s.Format)
	}
	if opts.Mapping, err = accesslog.ParseMapping(s.Fields); err != nil {
		return opts, nil, fmt.Errorf("--fields: %w", err)
	}
	if i := slices.Index(inputs, "-"); i >= 0 && slices.Contains(inputs[i+1:], "-") {
		return opts, nil, errors.New("the standard input (-) can be read once only")
	}
	if opts.Envoy, err = readEnvoy(s.Envoy, s.fromEnvoy.options()); err != nil {
		return opts, nil, err
	}
	var names []string
	if opts.Rules, names, err = s.tree(s.Rules); err != nil {
		return opts, nil, err
	}
	inputs = append(inputs, names...)
	if s.Compare != "" {
		opts.Old, names, err = s.tree(s.Compare)
		inputs = append(inputs, names...)
	}
	return opts, inputs, err
}

// tree reads rules, of files with these names.
func (s simulation) tree(path string) (tree *descriptors.Tree, names []string, err error) {
	files, _, err := descriptors.ReadFiles(path)
	if err == nil && len(files) == 0 {
		err = descriptors.NoFiles(path)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		names = append(names, f.Name)
	}
	tree, err = descriptors.Load(files, server.RuleOptions(s.Reading))
	if err != nil {
		return nil, nil, fmt.Errorf("invalid rules:\n%w", err)
	}
	return tree, names, nil
}
