package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"weir/internal/descriptors"
	"weir/internal/descriptors/plaintext"
	"weir/internal/offline/limittest"
	"weir/internal/operators/client"
	"weir/internal/plan"
	"weir/internal/plan/explain"
	"weir/internal/server"
	"weir/internal/settings"
)

type schema struct{}

func (schema) Run(p *program) error {
	_, err := p.stdout.Write(descriptors.Schema)
	return err
}

type validation struct {
	Paths []string `arg:"" name:"path" help:"Files and directories of rules. Directories are read as serve reads them; - is the standard input. Warnings go to stderr."`
	settings.Reading
	Strict bool   `help:"Treat warnings as problems."`
	Output string `enum:"text,json,github" default:"text" help:"Format of the report: text, json, or github, which GitHub shows in pull requests."`
}

// report is the result of the commands validate and check.
type report struct {
	Valid    bool      `json:"valid"`
	Files    int       `json:"files"`
	Domains  int       `json:"domains"`
	Rules    int       `json:"rules"`
	Problems []finding `json:"problems"`
	unread   bool      // whether a path could not be read
}

// finding is a problem, a warning or a notice.
type finding struct {
	Severity string `json:"severity"` // error, warning or notice
	descriptors.Problem
}

func (r *report) add(severity string, problems ...descriptors.Problem) {
	for _, p := range problems {
		r.Problems = append(r.Problems, finding{severity, p})
	}
}

// standardInput is the file name of the standard input in problems.
const standardInput = "stdin"

// Run checks the rules as serve would load them. If a path cannot be read, it still checks
// the rules at the other paths.
func (v validation) Run(p *program) error {
	return v.check(descriptors.ReadFiles).print(p, v.Output)
}

// print prints all findings. It adds a summary if the report is valid, and returns an exit code if not.
func (r *report) print(p *program, output string) error {
	for _, f := range r.Problems {
		switch {
		case output == "json":
		case output == "github":
			fmt.Fprintln(p.stdout, f.annotation())
		case f.Severity == "error":
			fmt.Fprintf(p.stdout, "%v\n%s", f.Problem, f.Excerpt)
		default:
			fmt.Fprintf(p.stderr, "%s: %s\n", f.Severity, f.Problem)
		}
	}
	var err error
	if output == "json" {
		err = writeJSON(p.stdout, r)
	} else if r.Valid {
		fmt.Fprintf(p.stdout, "valid: files=%d domains=%d rules=%d\n", r.Files, r.Domains, r.Rules)
	}
	switch {
	case err != nil || r.Valid:
		return err
	case r.unread:
		return exit(exitUsage)
	}
	return exit(exitFailed)
}

// check loads the rules at v.Paths, which it reads with read (- is the standard input), and reports problems.
func (v validation) check(read func(paths ...string) ([]descriptors.File, []string, error)) *report {
	r := &report{Problems: []finding{}}
	var files []descriptors.File
	for _, path := range v.Paths {
		var err error
		found, skipped := make([]descriptors.File, 1), []string(nil)
		if path == "-" {
			found[0], err = descriptors.ReadStream(os.Stdin, standardInput)
		} else {
			found, skipped, err = read(path)
		}
		if err != nil {
			r.unread = true
			r.add("error", descriptors.Problem{File: path, Message: err.Error()})
			continue
		}
		files = append(files, found...)
		for _, name := range skipped {
			r.add("notice", descriptors.Problem{File: name, Message: "skipped, " + descriptors.WhySkipped(name)})
		}
	}
	r.Files = len(files)
	tree, err := likeServer{Reading: v.Reading}.load(files, v.Paths...)
	problems, invalid := errors.AsType[descriptors.Problems](err)
	switch {
	case invalid:
		r.add("error", problems...)
	case err == nil:
		r.Valid = !r.unread
		r.addTree(tree, v.Strict)
	case !r.unread:
		r.add("error", descriptors.Problem{Message: err.Error()})
	}
	return r
}

// addTree adds the numbers of domains and rules and the warnings of a tree. For strict, see warn.
func (r *report) addTree(tree *descriptors.Tree, strict bool) {
	r.Domains, r.Rules = tree.Domains(), tree.Rules()
	r.warn(strict, tree.Warnings()...)
}

// warn adds warnings. If strict is true, they count as errors, and the report is not valid.
func (r *report) warn(strict bool, warnings ...descriptors.Problem) {
	severity := "warning"
	if strict && len(warnings) > 0 {
		r.Valid, severity = false, "error"
	}
	r.add(severity, warnings...)
}

// GitHub's workflow commands escape these characters in messages and in properties.
var (
	inMessage  = strings.NewReplacer("%", "%25", "\n", "%0A")
	inProperty = strings.NewReplacer("%", "%25", ":", "%3A", ",", "%2C")
)

// annotation returns GitHub's workflow command for a finding. Text from files can neither
// begin a command nor end this one.
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
	client.Descriptor

	settings.RulesPath `embed:"" group:"Settings of the server:"`
	likeServer
	settings.Keys `embed:"" group:"Settings of the server:"`
	Redis         settings.RedisLocation `embed:"" group:"Settings of the server:" prefix:"redis-" envprefix:"REDIS_" set:"absent=explain does not connect to it. Without it, counters are in memory and have no keys to show."`
	Failure       settings.Failure       `embed:"" group:"Settings of the server:"`

	Hits     *uint64 `placeholder:"N" help:"hits_addend of the descriptor itself, which may be charged even if it is denied; 0 is a peek. By default it has none, and the request asks for 1."`
	Assigned string  `placeholder:"AMOUNT" help:"Explain as if this were assigned to the rule for this descriptor: a number or unlimited. weir peek shows what a server has."`
	Output   string  `enum:"text,json" default:"text" help:"Format of the answer: text or json."`
}

// likeServer contains the server's settings that affect how rules are read and requests are
// decided, for commands that do both without a server.
type likeServer struct {
	settings.Reading  `embed:"" group:"Settings of the server:"`
	settings.Charging `embed:"" group:"Settings of the server:"`
	settings.Modes    `embed:"" group:"Settings of the server:"`
}

// options returns the settings that affect decisions.
func (l likeServer) options() plan.Options {
	return server.PlanOptions(l.Reading, l.Charging, l.Modes)
}

// load checks and compiles the rule files that were read from paths. It fails if files is empty.
func (l likeServer) load(files []descriptors.File, paths ...string) (*descriptors.Tree, error) {
	if len(files) == 0 {
		return nil, descriptors.NoFiles(paths...)
	}
	tree, err := descriptors.Load(files, server.RuleOptions(l.Reading))
	if err != nil {
		return nil, fmt.Errorf("invalid rules:\n%w", err)
	}
	return tree, nil
}

func (e explanation) Run(p *program) error {
	cluster := e.Redis.Named() && e.Redis.Clustered()
	options := e.options()
	var err error
	if options.Keys, err = server.NewKeys(e.Keys, cluster); err != nil {
		return err
	}
	files, _, err := server.ReadRules(e.RulesPath)
	if err != nil {
		return fmt.Errorf("%w (see %s)", err, e.Named())
	}
	tree, err := e.load(files, e.Path())
	if err != nil {
		return err
	}
	if _, ok := plan.ParseAmount(e.Assigned); e.Assigned != "" && !ok {
		return fmt.Errorf("--assigned: %q is not an amount; use a number or unlimited", e.Assigned)
	}
	answer, err := explain.Explain(explain.Question{
		Options: options, Tree: tree, Failure: server.FailureMode(e.Failure),
		Domain: string(e.Domain), Descriptor: e.Descriptor.Descriptor, HitsAddend: e.Hits, Amount: e.Assigned,
		Redis: e.Redis.Named(), Cluster: cluster,
	})
	if err != nil {
		return err
	}
	return p.print(e.Output, &answer, answer.Rule != "")
}

type ruleTests struct {
	Paths []string       `arg:"" name:"path" help:"Test files, NAME_test.yaml, or directories, which are searched for such files."`
	Only  *regexp.Regexp `name:"run" placeholder:"REGEXP" help:"Run only tests whose name matches."`
	JUnit string         `name:"junit" placeholder:"FILE" help:"Also write the results to this file, as JUnit XML."`

	likeServer
}

// Run runs the tests of all files. It prints failures and a summary to stdout, and errors in
// the files to stderr. It stops early if ctx is done.
func (r ruleTests) Run(ctx context.Context, p *program) error {
	files, err := limittest.Find(r.Paths...)
	if err != nil {
		return err
	}
	if err := checkDistinct("--junit", r.JUnit, files...); err != nil {
		return err
	}
	options := limittest.Options{Options: r.options(), Rules: server.RuleOptions(r.Reading)}
	var reports []limittest.Report
	tests, failed, invalid := 0, 0, 0
	for _, name := range files {
		report := limittest.Run(ctx, name, options, r.Only)
		reports = append(reports, report)
		tests, failed = tests+len(report.Results), failed+report.Failed()
		for _, result := range report.Results {
			for _, failure := range result.Failures {
				fmt.Fprintln(p.stdout, failure)
			}
		}
		if ctx.Err() != nil {
			break
		}
		if report.Err != nil {
			fmt.Fprintf(p.stderr, "weir: %v\n", report.Err)
			invalid++
		}
	}
	summary, outcome := fmt.Sprintf("files=%d tests=%d failed=%d invalid=%d", len(reports), tests, failed, invalid), error(nil)
	switch {
	case ctx.Err() != nil:
		summary, outcome = "interrupted: "+summary, exit(exitUsage)
	case invalid > 0:
		summary, outcome = "invalid: "+summary, exit(exitUsage)
	case failed > 0:
		summary, outcome = "failed: "+summary, exit(exitFailed)
	case tests == 0:
		return fmt.Errorf("no test matches %q", r.Only)
	default:
		summary = fmt.Sprintf("passed: files=%d tests=%d", len(reports), tests)
	}
	fmt.Fprintln(p.stdout, summary)
	err = writeFile(r.JUnit, func(w io.Writer) error { return limittest.WriteJUnit(w, reports) })
	return cmp.Or(err, outcome)
}
