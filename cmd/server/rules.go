package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/limiter"
	"weir/internal/offline/explain"
	"weir/internal/offline/limittest"
	"weir/internal/operators"
	"weir/internal/plan"
	"weir/internal/server"
	"weir/internal/settings"
)

type schema struct{}

// Run prints the schema of rule files.
func (schema) Run(p *program) error {
	_, err := p.stdout.Write(descriptors.Schema)
	return err
}

type validation struct {
	Paths []string `arg:"" name:"path" help:"Files and directories of rules. Directories are read as serve reads them; - is the standard input. Warnings go to stderr."`
	settings.Reading
	Output string `enum:"text,json,github" default:"text" help:"Format of the report: text, json, or github, which GitHub shows in pull requests."`
}

// report is the outcome of validate for programs.
type report struct {
	Valid    bool      `json:"valid"`
	Files    int       `json:"files"`
	Domains  int       `json:"domains"`
	Rules    int       `json:"rules"`
	Problems []finding `json:"problems"`
}

// finding is a problem, a warning or a notice.
type finding struct {
	Severity string `json:"severity"` // error, warning, or notice for a file that is not read
	descriptors.Problem
}

func (r *report) add(severity string, problems ...descriptors.Problem) {
	for _, p := range problems {
		r.Problems = append(r.Problems, finding{severity, p})
	}
}

// standardInput is what problems call the standard input.
const standardInput = "stdin"

// Run checks the rules as serve would load them. What cannot be read keeps
// nothing else from being checked.
func (v validation) Run(p *program) error {
	r, unread := v.check()
	if v.Output == "json" {
		if err := writeJSON(p.stdout, r); err != nil {
			return err
		}
	} else {
		for _, f := range r.Problems {
			switch {
			case v.Output == "github":
				fmt.Fprintln(p.stdout, f.annotation())
			case f.Severity == "error":
				fmt.Fprintln(p.stdout, f.Problem)
			case f.Severity == "notice":
				fmt.Fprintln(p.stderr, f.Problem)
			case r.Valid:
				fmt.Fprintf(p.stderr, "warning: %s\n", f.Problem)
			}
		}
		if r.Valid {
			fmt.Fprintf(p.stdout, "valid: files=%d domains=%d rules=%d\n", r.Files, r.Domains, r.Rules)
		}
	}
	switch {
	case unread:
		return exit(exitUsage)
	case !r.Valid:
		return exit(exitFailed)
	}
	return nil
}

// check reports on all files, and whether some cannot be read.
func (v validation) check() (r report, unread bool) {
	r.Problems = []finding{}
	var files []descriptors.File
	var skipped descriptors.Problems
	for _, path := range v.Paths {
		found, names := make([]descriptors.File, 1), []string(nil)
		var err error
		if path == "-" {
			found[0], err = descriptors.ReadStream(os.Stdin, standardInput)
		} else {
			found, names, err = descriptors.ReadFiles(path)
		}
		if err != nil {
			unread = true
			r.add("error", descriptors.Problem{File: path, Message: err.Error()})
			continue
		}
		files = append(files, found...)
		for _, name := range names {
			skipped = append(skipped, descriptors.Problem{File: name, Message: "skipped, " + descriptors.WhySkipped(name)})
		}
	}
	r.Files = len(files)
	if r.Files > 0 {
		tree, err := descriptors.Load(files, server.RuleOptions(v.Reading))
		if problems, ok := errors.AsType[descriptors.Problems](err); ok {
			r.add("error", problems...)
		} else {
			r.Valid, r.Domains, r.Rules = !unread, tree.Domains(), tree.Rules()
			r.add("warning", tree.Warnings()...)
		}
	} else if !unread {
		r.add("error", descriptors.Problem{Message: descriptors.NoFiles(v.Paths...).Error()})
	}
	r.add("notice", skipped...)
	return r, unread
}

// What workflow commands of GitHub escape in messages, and in properties.
var (
	inMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	inProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// annotation returns the workflow command of GitHub for a finding. Nothing that comes
// from files is at its start, or could end it.
func (f finding) annotation() string {
	head := "::" + f.Severity
	if f.File != "" && f.File != standardInput {
		head += " file=" + inProperty.Replace(plaintext.Line(filepath.Clean(f.File)))
		if f.Line > 0 {
			head += fmt.Sprintf(",line=%d,col=%d", f.Line, f.Column)
		}
	}
	message := plaintext.Lines(f.Message)
	if f.Path != "" {
		message = plaintext.Line(f.Path) + ": " + message
	}
	return head + "::" + inMessage.Replace(message)
}

type explanation struct {
	whom

	settings.RulesPath `embed:"" group:"Settings of the server:"`
	likeServer
	settings.Keys `embed:"" group:"Settings of the server:"`
	Redis         settings.RedisPlace `embed:"" group:"Settings of the server:" prefix:"redis-" envprefix:"REDIS_" set:"absent=explain does not connect to it. Without it, counters are in memory and have no keys to show."`
	Failure       settings.Failure    `embed:"" group:"Settings of the server:"`

	Hits   *uint64 `placeholder:"N" help:"hits_addend of the descriptor itself, which may be charged even if it is denied; 0 is a peek. By default it has none, and the request asks for 1."`
	Output string  `enum:"text,json" default:"text" help:"Format of the answer: text or json."`
}

// likeServer are settings of the server on which its answers depend, for
// commands that answer in its place.
type likeServer struct {
	settings.Reading  `embed:"" group:"Settings of the server:"`
	settings.Charging `embed:"" group:"Settings of the server:"`
	settings.Modes    `embed:"" group:"Settings of the server:"`
}

// options returns those of them on which decisions depend.
func (l likeServer) options() plan.Options {
	return plan.Options{
		Charge: server.Charge(l.StopWhenOverLimit), CalendarMonths: l.CalendarMonths, ShadowMode: l.ShadowMode, QuotaMode: l.QuotaMode,
	}
}

// load checks and compiles the files of rules that were read at a path.
func (l likeServer) load(files []descriptors.File, path string) (*descriptors.Tree, error) {
	if len(files) == 0 {
		return nil, descriptors.NoFiles(path)
	}
	tree, err := descriptors.Load(files, server.RuleOptions(l.Reading))
	if err != nil {
		return nil, fmt.Errorf("invalid rules:\n%w", err)
	}
	return tree, nil
}

// read has a value read from an argument as it was given, which is no flag. The parser would
// replace what is not UTF-8 in a string.
func read(ctx *kong.DecodeContext, into func(text string) error) error {
	token, err := ctx.Scan.PopValue("text")
	if err != nil {
		return err
	}
	if err := into(token.String()); err != nil {
		return fmt.Errorf("%q: %w", token.String(), err)
	}
	return nil
}

// anyBytes is an argument of any bytes.
type anyBytes string

// Decode implements kong.MapperValue.
func (b *anyBytes) Decode(ctx *kong.DecodeContext) error {
	return read(ctx, func(text string) error { *b = anyBytes(text); return nil })
}

// domain is an argument that may have backslashes.
type domain string

// Decode implements kong.MapperValue.
func (d *domain) Decode(ctx *kong.DecodeContext) error {
	return read(ctx, func(text string) error {
		name, err := explain.ParseDomain(text)
		*d = domain(name)
		return err
	})
}

// entries are an argument: those of a descriptor, with backslashes.
type entries []limiter.Entry

// Decode implements kong.MapperValue.
func (e *entries) Decode(ctx *kong.DecodeContext) (err error) {
	return read(ctx, func(text string) error { *e, err = explain.ParseDescriptor(text); return err })
}

// whom is embedded in commands about a descriptor.
type whom struct {
	Domain     domain  `arg:"" help:"Domain of the descriptor."`
	Descriptor entries `arg:"" help:"Entries of the descriptor, such as user=alice,path=/login. Here and in the domain, put a backslash before a literal comma, = or backslash; \\x0a is the byte 0a."`
}

func (w whom) descriptor() operators.Descriptor {
	return operators.NewDescriptor(string(w.Domain), w.Descriptor)
}

// Run explains what happens to a descriptor.
func (e explanation) Run(p *program) error {
	question := explain.Question{
		Domain: string(e.Domain), Descriptor: e.Descriptor, HitsAddend: e.Hits, Options: e.options(), Failure: server.FailureMode(e.Failure.Mode),
	}
	var err error
	clustered := e.Redis.Clustered()
	question.Keys, err = limiter.NewKeys(e.CacheKeyPrefix, e.CacheKeyHashValues)
	if err == nil && clustered {
		question.Keys, err = question.Keys.InBuckets()
	}
	if err != nil {
		return err
	}
	files, _, err := server.ReadRules(e.RulesPath, e.Path())
	if err != nil {
		return fmt.Errorf("%w (see %s)", err, e.Named())
	}
	if question.Tree, err = e.load(files, e.Path()); err != nil {
		return err
	}
	question.Redis = e.Redis.Named()
	question.Cluster = question.Redis && clustered
	answer, err := explain.Explain(question)
	if err != nil {
		return err
	}
	if err := writeResult(p.stdout, e.Output, &answer); err != nil {
		return err
	}
	if answer.Rule == "" {
		return exit(exitFailed)
	}
	return nil
}

type ruleTests struct {
	Paths []string       `arg:"" name:"path" help:"Test files, NAME_test.yaml, or directories, which are searched for such files."`
	Only  *regexp.Regexp `name:"run" placeholder:"REGEXP" help:"Run only tests whose name matches."`
	JUnit string         `name:"junit" placeholder:"FILE" help:"Also write the results to this file, as JUnit XML."`

	likeServer
}

// Run runs the tests of all files, each of which has its own rules. It prints failures and a
// summary, and says what is wrong with the files on stderr. It ends early if ctx does.
func (r ruleTests) Run(ctx context.Context, p *program) error {
	files, err := limittest.Find(r.Paths...)
	if err != nil {
		return err
	}
	junit, err := newOutput("--junit", r.JUnit, files)
	if err != nil {
		return err
	}
	tests, failed, bad := 0, 0, 0
	var reports []limittest.Report
	var outcome error
	word, opts := "passed", limittest.Options{Options: r.options(), Rules: server.RuleOptions(r.Reading)}
	for _, name := range files {
		report := limittest.Run(ctx, name, opts, r.Only)
		for _, result := range report.Results {
			for _, failure := range result.Failures {
				fmt.Fprintln(p.stdout, failure)
			}
		}
		tests, failed, reports = tests+len(report.Results), failed+report.Failed(), append(reports, report)
		if errors.Is(report.Err, context.Canceled) {
			word, outcome = "interrupted", exit(exitUsage)
			break
		}
		if report.Err != nil {
			fmt.Fprintf(p.stderr, "weir: %v\n", report.Err)
			bad++
		}
	}
	switch {
	case outcome != nil:
	case bad > 0:
		word, outcome = "invalid", exit(exitUsage)
	case failed > 0:
		word, outcome = "failed", exit(exitFailed)
	case tests == 0:
		return fmt.Errorf("no test matches %q", r.Only)
	}
	fmt.Fprintf(p.stdout, "%s: files=%d tests=%d", word, len(reports), tests)
	if outcome != nil {
		fmt.Fprintf(p.stdout, " failed=%d invalid=%d", failed, bad)
	}
	fmt.Fprintln(p.stdout)
	if junit != nil {
		err = limittest.WriteJUnit(junit, reports)
	}
	return cmp.Or(errors.Join(err, junit.finish()), outcome)
}
