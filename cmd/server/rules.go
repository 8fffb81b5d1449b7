package main

import (
	"cmp"
	"context"
	"encoding/json"
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
	Paths []string `arg:"" name:"path" help:"Files and directories of rules. Directories are read as serve reads them, and - is the standard input. What is valid, but hardly meant, is told on stderr."`
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
		text, err := json.Marshal(r)
		if err = errors.Join(err, writeJSON(p.stdout, text)); err != nil {
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
		found, passed, err := read(path)
		if err != nil {
			unread = append(unread, err)
			r.add("error", descriptors.Problem{File: path, Message: err.Error()})
		}
		files = append(files, found...)
		for _, name := range passed {
			skipped = append(skipped, descriptors.Problem{File: name, Message: "skipped, " + descriptors.WhySkipped(name)})
		}
	}
	r.Files = len(files)
	var tree *descriptors.Tree
	var err error
	if len(files) > 0 {
		tree, err = descriptors.Load(files, server.RuleOptions(v.Reading))
	} else if unread == nil {
		err = descriptors.NoFiles(v.Paths...)
	}
	if problems, ok := errors.AsType[descriptors.Problems](err); ok {
		r.add("error", problems...)
	} else if err != nil {
		r.add("error", descriptors.Problem{Message: err.Error()})
	}
	if tree != nil {
		r.Valid, r.Domains, r.Rules = unread == nil, tree.Domains(), tree.Rules()
		r.add("warning", tree.Warnings()...)
	}
	r.add("notice", skipped...)
	return r, unread
}

// read reads what a path names. A dash names the standard input.
func read(path string) (files []descriptors.File, skipped []string, err error) {
	if path != "-" {
		return descriptors.ReadFiles(path)
	}
	file, err := descriptors.ReadStream(os.Stdin, standardInput)
	return []descriptors.File{file}, nil, err
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
		properties = append(properties, "file="+inProperty.Replace(plaintext.Line(relative(f.File))))
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

// relative returns a path as seen from the working directory, with slashes, if it is
// below that.
func relative(path string) string {
	if at, err := filepath.Abs("."); err == nil && filepath.IsAbs(path) {
		if inside, err := filepath.Rel(at, path); err == nil && filepath.IsLocal(inside) {
			path = inside
		}
	}
	return filepath.ToSlash(filepath.Clean(path))
}

// explanation is the command explain.
type explanation struct {
	Domain     anyBytes `arg:"" help:"Domain of the request, with backslashes as in the descriptor."`
	Descriptor anyBytes `arg:"" help:"Entries of the descriptor, such as user=alice,path=/login. A backslash before a comma, an = or a backslash takes it as it is, and \\x0a is the byte 0a."`

	settings.RulesPath `embed:"" group:"Settings of the server:"`
	likeServer
	settings.Keys `embed:"" group:"Settings of the server:"`
	Redis         settings.RedisPlace `embed:"" group:"Settings of the server:" prefix:"redis-" envprefix:"REDIS_" set:"absent=It is not asked. Without it counters are in memory, and have no keys to tell."`
	Failure       settings.Failure    `embed:"" group:"Settings of the server:"`

	Hits   *uint64 `placeholder:"N" help:"hits_addend of the descriptor itself, which may be charged although it is denied; 0 is a peek. By default it has none, and the request asks for 1."`
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

// entries reads the entries of a descriptor.
func (b anyBytes) entries() ([]limiter.Entry, error) {
	entries, err := explain.ParseDescriptor(string(b))
	if err != nil {
		return nil, fmt.Errorf("descriptor %q: %w", b, err)
	}
	return entries, nil
}

// Run explains what becomes of a descriptor.
func (e explanation) Run(p *program) error {
	answer, err := e.ask()
	if err != nil {
		return err
	}
	if err := writeResult(p.stdout, e.Output, answer); err != nil {
		return err
	}
	if answer.Rule == "" {
		return exit(exitFailed)
	}
	return nil
}

func (e explanation) ask() (*explain.Answer, error) {
	entries, err := e.Descriptor.entries()
	if err != nil {
		return nil, err
	}
	domain, err := e.Domain.domain()
	if err != nil {
		return nil, err
	}
	keys, err := limiter.NewKeys(string(e.CacheKeyPrefix), e.CacheKeyHashValues)
	if err == nil && e.Redis.Clustered() {
		keys, err = keys.InBuckets()
	}
	if err != nil {
		return nil, err
	}
	files, _, err := server.ReadRules(e.RulesPath, e.Path())
	if err == nil && len(files) == 0 {
		err = descriptors.NoFiles(e.Path())
	}
	if err != nil {
		return nil, fmt.Errorf("%w (see %s)", err, e.Named())
	}
	tree, err := e.load(files, e.Path())
	if err != nil {
		return nil, err
	}
	store := explain.InMemory
	if e.Redis.Named() {
		store = explain.InRedis
		if e.Redis.Clustered() {
			store = explain.InCluster
		}
	}
	options := e.options()
	options.Keys = keys
	answer, err := explain.Explain(explain.Question{
		Options: options, Tree: tree, Failure: server.FailureMode(e.Failure.Mode),
		Domain: domain, Descriptor: entries, HitsAddend: e.Hits, Store: store,
	})
	return &answer, err
}

// ruleTests is the command test.
type ruleTests struct {
	Paths []string       `arg:"" name:"path" help:"Files of tests, FILE_test.yaml, and directories, below which all such files are taken."`
	Only  *regexp.Regexp `name:"run" placeholder:"REGEXP" help:"Run only tests with a matching name."`
	JUnit string         `name:"junit" placeholder:"FILE" help:"Write the results to this file, too, in the XML format of JUnit."`

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
	switch {
	case interrupted:
		fmt.Fprintf(p.stdout, "interrupted: files=%d invalid=%d tests=%d failed=%d\n", len(reports), bad, tests, failed)
		return reports, exit(exitUsage)
	case bad > 0:
		fmt.Fprintf(p.stdout, "invalid: files=%d invalid=%d tests=%d failed=%d\n", len(files), bad, tests, failed)
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
