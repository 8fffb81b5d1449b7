package main

import (
	"fmt"
	"io"

	"weir/internal/descriptors"
)

// validation is the command validate.
type validation struct {
	Paths             []string `arg:"" name:"path" help:"Files and directories of rules. Directories are read as serve reads them. What is valid, but hardly meant, is told on stderr."`
	MergeDomainConfig bool     `env:"MERGE_DOMAIN_CONFIG" default:"false" help:"Let several files hold rules of one domain."`
}

// run checks the rules as serve would load them.
func (v validation) run(stdout, stderr io.Writer) int {
	files, skipped, err := descriptors.ReadFiles(v.Paths...)
	if err != nil {
		fmt.Fprintf(stderr, "weir: %v\n", err)
		return exitUsage
	}
	for _, name := range skipped {
		fmt.Fprintf(stderr, "%s: skipped, its name is not that of a file of rules\n", name)
	}
	if len(files) == 0 {
		err = descriptors.NoFiles(v.Paths...)
	}
	var tree *descriptors.Tree
	if err == nil {
		tree, err = descriptors.Load(files, descriptors.Options{MergeDomains: v.MergeDomainConfig})
	}
	if err != nil {
		fmt.Fprintln(stdout, err) // every problem on a line of its own
		return exitFailed
	}
	for _, w := range tree.Warnings() {
		fmt.Fprintf(stderr, "warning: %s\n", w)
	}
	fmt.Fprintf(stdout, "valid: files=%d domains=%d rules=%d\n", len(files), tree.Domains(), tree.Rules())
	return exitOK
}
