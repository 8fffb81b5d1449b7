package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
)

// allocations runs the benchmarks of functions that must not allocate. Each runs only
// briefly, because only the number of allocations matters.
func (b *bench) allocations(ctx context.Context) error {
	command := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=^Benchmark(Match|Key)$", "-benchmem", "-benchtime=100ms",
		"./internal/descriptors", "./internal/limiter")
	command.Dir = repository
	text, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	var counts rounds
	for _, found := range allocationsOf.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			return err
		}
		counts = append(counts, n)
	}
	if counts == nil {
		return errors.New("the benchmarks tell no allocations")
	}
	b.results.Allocations = rounds{slices.Max(counts)}
	return nil
}

var allocationsOf = regexp.MustCompile(`(\d+) allocs/op`)
