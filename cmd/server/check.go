package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/descriptors"
	"weir/internal/server"
	"weir/internal/settings"
)

// checking is the command check. Its Settings may be invalid; Run then reports their errors.
type checking struct {
	settings.Settings
	Strict bool   `help:"Treat warnings as problems."`
	Output string `enum:"text,json" default:"text" help:"Format of the report: text or json."`
}

// Run reports all problems of the settings and of everything that they name.
func (c checking) Run(ctx context.Context, p *program) error {
	counters, tree, err := server.Check(ctx, server.Options{
		Settings: c.Settings, Logger: slog.New(slog.DiscardHandler), Stdout: io.Discard,
		Registry: prometheus.NewRegistry(), Build: build(), Hurry: ctx,
	})
	r := &report{Problems: []finding{}, Valid: true}
	if c.XDS.Enabled() {
		r.addTree(cmp.Or(tree, new(descriptors.Tree)), c.Strict)
	} else {
		rules := validation{Paths: []string{c.Rules.Path()}, Reading: c.Rules.Reading, Strict: c.Strict}
		r = rules.check(func(...string) ([]descriptors.File, []string, error) { return server.ReadRules(c.Rules.RulesPath) })
	}
	if err := errors.Join(c.Invalid, err); err != nil {
		r.Valid = false
		for line := range strings.SplitSeq(plain(err, p.parsed.Selected()), "\n") {
			r.add("error", descriptors.Problem{Message: line})
		}
	}
	for _, w := range c.Warnings {
		r.warn(c.Strict, descriptors.Problem{Message: fmt.Sprintf("$%s has no effect: %s", w.Variable, w.Instead)})
	}
	if counters != "" {
		r.add("notice", descriptors.Problem{Message: "counters are in " + counters})
	}
	r.unread = false // a path that cannot be read is a problem, not bad usage
	return r.print(p, c.Output)
}
