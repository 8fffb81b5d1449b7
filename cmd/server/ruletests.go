package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"weir/internal/offline/limittest"
	"weir/internal/server"
)

// ruleTests is the command test.
type ruleTests struct {
	Paths []string       `arg:"" name:"path" help:"Files of tests, FILE_test.yaml, and directories, below which all such files are taken."`
	Only  *regexp.Regexp `name:"run" placeholder:"REGEXP" help:"Run only tests with a matching name."`
	JUnit string         `name:"junit" placeholder:"FILE" help:"Write the results to this file, too, in the XML format of JUnit."`

	likeServer
}

// run runs the tests of all files. Each file has its own rules.
func (r ruleTests) run(ctx context.Context, stdout, stderr io.Writer) int {
	files, err := limittest.Find(r.Paths...)
	if err != nil {
		fmt.Fprintf(stderr, "weir: %v\n", err)
		return exitUsage
	}
	if r.JUnit == "" {
		_, code := r.report(ctx, files, stdout, stderr)
		return code
	}
	code, err := r.runWithJUnit(ctx, files, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "weir: %v\n", err)
		return exitUsage
	}
	return code
}

// runWithJUnit runs no test unless the file for the results can be written.
func (r ruleTests) runWithJUnit(ctx context.Context, files []string, stdout, stderr io.Writer) (code int, err error) {
	f, err := os.Create(r.JUnit)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	reports, code := r.report(ctx, files, stdout, stderr)
	return code, limittest.WriteJUnit(f, reports)
}

// report runs the tests, prints failures and a summary, says what is wrong with
// the files on stderr, and returns what to exit with. It ends early if ctx does.
func (r ruleTests) report(ctx context.Context, files []string, stdout, stderr io.Writer) (reports []limittest.Report, code int) {
	tests, failed, bad, interrupted := 0, 0, 0, false
	for _, name := range files {
		report := r.runFile(ctx, name)
		for _, result := range report.Results {
			for _, failure := range result.Failures {
				fmt.Fprintln(stdout, failure)
			}
		}
		tests += len(report.Results)
		failed += report.Failed()
		reports = append(reports, report)
		if interrupted = errors.Is(report.Err, context.Canceled); interrupted {
			break
		}
		if report.Err != nil {
			fmt.Fprintf(stderr, "weir: %v\n", report.Err)
			bad++
		}
	}
	switch {
	case interrupted:
		fmt.Fprintf(stdout, "interrupted: files=%d invalid=%d tests=%d failed=%d\n", len(reports), bad, tests, failed)
		return reports, exitUsage
	case bad > 0:
		fmt.Fprintf(stdout, "invalid: files=%d invalid=%d tests=%d failed=%d\n", len(files), bad, tests, failed)
		return reports, exitUsage
	case tests == 0:
		fmt.Fprintf(stderr, "weir: no test matches %q\n", r.Only)
		return reports, exitUsage
	case failed > 0:
		fmt.Fprintf(stdout, "failed: files=%d tests=%d failed=%d\n", len(files), tests, failed)
		return reports, exitFailed
	default:
		fmt.Fprintf(stdout, "passed: files=%d tests=%d\n", len(files), tests)
		return reports, exitOK
	}
}

func (r ruleTests) runFile(ctx context.Context, name string) limittest.Report {
	report := limittest.Report{File: name}
	file, err := limittest.Load(name, limittest.Options{
		Options: r.options(),
		Rules:   server.RuleOptions(r.Reading),
	})
	if err != nil {
		report.Err = err
		return report
	}
	if report.Results, err = file.Run(ctx, r.Only); err != nil {
		report.Err = fmt.Errorf("interrupted: %w", err)
	}
	return report
}
