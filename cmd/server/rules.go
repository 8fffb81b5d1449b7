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
	"weir/internal/plan"
	"weir/internal/server"
	"weir/internal/settings"
)

// schema is the command schema.
type schema struct{}

// Run prints the schema of rule files.
func (schema) Run(p *program) error {
	_, err := p.stdout.Write(descriptors.Schema)
	return err
}

// validation is the command validate.
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
		for i, f := range r.Problems {
			switch {
			case v.Output == "github":
				fmt.Fprintln(p.stdout, f.annotation())
			case i < len(unread): // which the error of the command says
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
	case unread != nil && v.Output == "text":
		return errors.Join(unread...)
	case unread != nil:
		return exit(exitUsage)
	case !r.Valid:
		return exit(exitFailed)
	}
	return nil
}

// check reports on all files. unread says of what could not be read why; the first
// problems of the report are the same.
func (v validation) check() (r report, unread []error) {
	r.Problems = []finding{}
	var files []descriptors.File
	var skipped descriptors.Problems
	for _, path := range v.Paths {
		var found []descriptors.File
		var names []string
		var err error
		if path == "-" {
			found = make([]descriptors.File, 1)
			found[0], err = descriptors.ReadStream(os.Stdin, standardInput)
		} else {
			found, names, err = descriptors.ReadFiles(path)
		}
		if err != nil {
			unread = append(unread, err)
			r.add("error", descriptors.Problem{File: path, Message: err.Error()})
		}
		files = append(files, found...)
		for _, name := range names {
			skipped = append(skipped, descriptors.Problem{File: name, Message: "skipped, " + descriptors.WhySkipped(name)})
		}
	}
	r.Files = len(files)
	if len(files) > 0 {
		tree, err := descriptors.Load(files, server.RuleOptions(v.Reading))
		if problems, ok := errors.AsType[descriptors.Problems](err); ok {
			r.add("error", problems...)
		} else if err != nil {
			r.add("error", descriptors.Problem{Message: err.Error()})
		} else {
			r.Valid, r.Domains, r.Rules = unread == nil, tree.Domains(), tree.Rules()
			r.add("warning", tree.Warnings()...)
		}
	} else if unread == nil {
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
	var properties []string
	if f.File != "" && f.File != standardInput {
		path := f.File // as seen from the working directory, if it is below that
		if at, err := filepath.Abs("."); err == nil && filepath.IsAbs(path) {
			if inside, err := filepath.Rel(at, path); err == nil && filepath.IsLocal(inside) {
				path = inside
			}
		}
		properties = append(properties, "file="+inProperty.Replace(plaintext.Line(filepath.Clean(path))))
	}
	if f.Line > 0 {
		properties = append(properties, fmt.Sprint("line=", f.Line))
	}
	if f.Column > 0 {
		properties = append(properties, fmt.Sprint("col=", f.Column))
	}
	message := plaintext.Lines(f.Message)
	if f.Path != "" {
		message = plaintext.Line(f.Path) + ": " + message
	}
	head := strings.TrimRight("::"+f.Severity+" "+strings.Join(properties, ","), " ")
	return head + "::" + inMessage.Replace(message)
}

// explanation is the command explain.
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

// anyBytes is an argument as it was given. As a string, the parser would replace
// what is not UTF-8.
type anyBytes string

// Decode takes any argument that is no flag.
func (b *anyBytes) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("text")
	if err == nil {
		*b = anyBytes(token.String())
	}
	return err
}

// domain reads a domain with backslashes.
func (b anyBytes) domain() (string, error) {
	domain, err := explain.ParseDomain(string(b))
	if err != nil {
		return "", fmt.Errorf("domain %q: %w", b, err)
	}
	return domain, nil
}

// whom is embedded in commands about a descriptor.
type whom struct {
	Domain     anyBytes `arg:"" help:"Domain of the descriptor."`
	Descriptor anyBytes `arg:"" help:"Entries of the descriptor, such as user=alice,path=/login. Here and in the domain, put a backslash before a literal comma, = or backslash; \\x0a is the byte 0a."`
}

func (w whom) read() (domain string, entries []limiter.Entry, err error) {
	if domain, err = w.Domain.domain(); err != nil {
		return "", nil, err
	}
	if entries, err = explain.ParseDescriptor(string(w.Descriptor)); err != nil {
		return "", nil, fmt.Errorf("descriptor %q: %w", w.Descriptor, err)
	}
	return domain, entries, nil
}

// Run explains what happens to a descriptor.
func (e explanation) Run(p *program) error {
	question := explain.Question{Options: e.options(), Failure: server.FailureMode(e.Failure.Mode), HitsAddend: e.Hits}
	var err error
	if question.Domain, question.Descriptor, err = e.read(); err != nil {
		return err
	}
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

// ruleTests is the command test.
type ruleTests struct {
	Paths []string       `arg:"" name:"path" help:"Test files, NAME_test.yaml, or directories, which are searched for such files."`
	Only  *regexp.Regexp `name:"run" placeholder:"REGEXP" help:"Run only tests whose name matches."`
	JUnit string         `name:"junit" placeholder:"FILE" help:"Also write the results to this file, as JUnit XML."`

	likeServer
}

// Run runs the tests of all files. Each file has its own rules. No test is run unless
// the file for the results can be written.
func (r ruleTests) Run(ctx context.Context, p *program) error {
	files, err := limittest.Find(r.Paths...)
	if err != nil {
		return err
	}
	if r.JUnit == "" {
		_, outcome := r.report(ctx, files, p)
		return outcome
	}
	f, err := os.Create(r.JUnit)
	if err != nil {
		return err
	}
	reports, outcome := r.report(ctx, files, p)
	return cmp.Or(errors.Join(limittest.WriteJUnit(f, reports), f.Close()), outcome)
}

// report runs the tests, prints failures and a summary, and says what is wrong with
// the files on stderr. It ends early if ctx does.
func (r ruleTests) report(ctx context.Context, files []string, p *program) (reports []limittest.Report, outcome error) {
	tests, failed, bad, interrupted := 0, 0, 0, false
	opts := limittest.Options{Options: r.options(), Rules: server.RuleOptions(r.Reading)}
	for _, name := range files {
		report := limittest.Run(ctx, name, opts, r.Only)
		for _, result := range report.Results {
			for _, failure := range result.Failures {
				fmt.Fprintln(p.stdout, failure)
			}
		}
		tests, failed, reports = tests+len(report.Results), failed+report.Failed(), append(reports, report)
		if interrupted = errors.Is(report.Err, context.Canceled); interrupted {
			break
		}
		if report.Err != nil {
			fmt.Fprintf(p.stderr, "weir: %v\n", report.Err)
			bad++
		}
	}
	counts := fmt.Sprintf("files=%d invalid=%d tests=%d failed=%d", len(reports), bad, tests, failed)
	switch {
	case interrupted:
		fmt.Fprintln(p.stdout, "interrupted:", counts)
		return reports, exit(exitUsage)
	case bad > 0:
		fmt.Fprintln(p.stdout, "invalid:", counts)
		return reports, exit(exitUsage)
	case tests == 0:
		return reports, fmt.Errorf("no test matches %q", r.Only)
	case failed > 0:
		fmt.Fprintf(p.stdout, "failed: files=%d tests=%d failed=%d\n", len(files), tests, failed)
		return reports, exit(exitFailed)
	}
	fmt.Fprintf(p.stdout, "passed: files=%d tests=%d\n", len(files), tests)
	return reports, nil
}
