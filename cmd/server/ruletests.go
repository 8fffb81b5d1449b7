package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"weir/internal/app"
	"weir/internal/descriptors"
	"weir/internal/limittest"
	"weir/internal/settings"
)

// ruleTests is the command test.
type ruleTests struct {
	Files []string       `arg:"" name:"file" help:"Files of tests, FILE_test.yaml."`
	Only  *regexp.Regexp `name:"run" placeholder:"REGEXP" help:"Run only tests with a matching name."`
	JUnit string         `name:"junit" placeholder:"FILE" help:"Write the results to this file, too, in the XML format of JUnit."`

	MergeDomainConfig bool            `env:"MERGE_DOMAIN_CONFIG" default:"false" help:"Let several files hold rules of one domain."`
	StopWhenOverLimit settings.Choice `name:"stop-cache-key-increment-when-overlimit" env:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" placeholder:"true|false" help:"Whether a denied request is kept out of the counters, as the server is told."`
}

// run runs the tests of all files. Each file has its own rules.
func (r ruleTests) run(ctx context.Context, stdout, stderr io.Writer) int {
	reports, code := r.report(ctx, stdout)
	if r.JUnit != "" {
		if err := writeJUnit(r.JUnit, reports); err != nil {
			fmt.Fprintf(stderr, "weir: %v\n", err)
			return exitUsage
		}
	}
	return code
}

// report runs the tests, prints what is wrong and a summary, and returns what
// to exit with.
func (r ruleTests) report(ctx context.Context, w io.Writer) (reports []limittest.Report, code int) {
	opts := limittest.Options{
		Rules:  descriptors.Options{MergeDomains: r.MergeDomainConfig},
		Charge: app.Charge(r.StopWhenOverLimit),
	}
	tests, failed, bad := 0, 0, 0
	for _, name := range r.Files {
		report := limittest.Report{File: name}
		var file *limittest.File
		if file, report.Err = limittest.Load(name, opts); report.Err != nil {
			fmt.Fprintln(w, report.Err)
			bad++
		} else {
			report.Results = file.Run(ctx, r.Only)
		}
		for _, result := range report.Results {
			for _, failure := range result.Failures {
				fmt.Fprintln(w, failure)
			}
		}
		tests += len(report.Results)
		failed += report.Failed()
		reports = append(reports, report)
	}
	switch {
	case bad > 0:
		fmt.Fprintf(w, "invalid: files=%d invalid=%d tests=%d failed=%d\n", len(r.Files), bad, tests, failed)
		return reports, exitUsage
	case tests == 0:
		fmt.Fprintf(w, "no test matches %q\n", r.Only)
		return reports, exitUsage
	case failed > 0:
		fmt.Fprintf(w, "failed: files=%d tests=%d failed=%d\n", len(r.Files), tests, failed)
		return reports, exitFailed
	default:
		fmt.Fprintf(w, "passed: files=%d tests=%d\n", len(r.Files), tests)
		return reports, exitOK
	}
}

func writeJUnit(name string, reports []limittest.Report) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return limittest.WriteJUnit(f, reports)
}
