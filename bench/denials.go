package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// denialCost is the cost of a denied decision, with and without the record of denied
// clients.
type denialCost struct {
	Keys          int
	Without, With rounds // microseconds of CPU time
	Share         rounds // share of the record in the server's CPU time, in percent, from a profile
}

// deniedKeys are numbers of keys. All keys are denied equally often, which is the worst case
// for the record.
var deniedKeys = []int{100, 1000, 10_000}

// recording is the source line that makes the server record denied clients.
const recording = "Observe:         observer.Observe,\n"

// denials measures the cost of the record of denied clients, compared with a server that is
// built without the record: no setting disables it.
func (b *bench) denials(ctx context.Context) error {
	if err := b.buildForgetful(); err != nil {
		return err
	}
	// Each value is admitted once an hour, and denied after that.
	const amount = 1
	without, err := b.weirOf("weir-forgetful", "forgetful", rulesOf(1, amount))
	if err != nil {
		return err
	}
	with, err := b.weir("recording", rulesOf(1, amount))
	if err != nil {
		return err
	}
	b.results.Denials = nil
	for _, keys := range deniedKeys {
		b.results.Denials = append(b.results.Denials, denialCost{Keys: keys})
	}
	for range b.rounds {
		for i := range b.results.Denials {
			c := &b.results.Denials[i]
			if err := b.addDenials(ctx, c.Keys, without, &c.Without); err != nil {
				return err
			}
			if err := b.addDenials(ctx, c.Keys, with, &c.With); err != nil {
				return err
			}
		}
	}
	for i := range b.results.Denials {
		if i > 0 { // the server refuses profiles for a while after a profile
			select {
			case <-time.After(profilePause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := b.profiled(ctx, &b.results.Denials[i], with); err != nil {
			return err
		}
	}
	return nil
}

// profilePause is the time for which the server refuses profiles after a profile.
const profilePause = 6 * time.Second

func (b *bench) addDenials(ctx context.Context, keys int, p *program, cpu *rounds) error {
	opts := b.load(p, 1)
	opts.Keys = keys
	return cpu.addCPU(ctx, opts, p)
}

// buildForgetful builds a server that does not record denied clients.
func (w *workshop) buildForgetful() error {
	source, err := filepath.Abs(filepath.Join(repository, "internal", "server", "app.go"))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	changed := bytes.Replace(text, []byte(recording), []byte("Observe:         func(context.Context, time.Time, *plan.Request, *plan.Result) { _ = observer },\n"), 1)
	if len(changed) == len(text) {
		return errors.New("internal/server/app.go does not hand on who records denials as this program expects")
	}
	edited := filepath.Join(w.dir, "app.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: edited}})
	if err == nil {
		err = os.WriteFile(edited, changed, 0o600) //nolint:gosec // in a new folder
	}
	list := filepath.Join(w.dir, "overlay.json")
	if err == nil {
		err = os.WriteFile(list, overlay, 0o600)
	}
	if err != nil {
		return err
	}
	return w.build("weir-forgetful", repository, "./cmd/server", "-overlay", list)
}

// profiled profiles p for the time of all rounds, and adds the share of CPU time that it
// spends on recording denials.
func (b *bench) profiled(ctx context.Context, c *denialCost, p *program) error {
	seconds := min(max(1, int(b.seconds.Seconds()*float64(b.rounds))), longestProfile)
	opts := b.load(p, 1)
	opts.Keys = c.Keys
	opts.Duration += time.Duration(seconds)*time.Second + 2*time.Second - b.seconds
	failed := make(chan error, 1)
	go func() {
		_, err := measured(ctx, opts)
		failed <- err
	}()
	top, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-cum", "-nodecount=1000", "-nodefraction=0", //nolint:gosec // a program of this benchmark
		fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.debug, seconds)).Output()
	if err := errors.Join(err, <-failed); err != nil {
		return err
	}
	found := observed.FindSubmatch(top)
	if found == nil {
		return errors.New("the profile does not show who records denials")
	}
	share, err := strconv.ParseFloat(string(found[1]), 64)
	c.Share = rounds{share}
	return err
}

// longestProfile is the longest profile that the server makes, in seconds.
const longestProfile = 60

// observed matches the cumulative share of Observe in a profile, in percent.
var observed = regexp.MustCompile(`(?m)([\d.]+)%\s+weir/internal/operators\.\(\*Observer\)\.Observe(?: \(inline\))?$`)

// denialsTable shows the cost of recording denied clients.
func denialsTable(r *results) string {
	var rows []string
	for _, c := range r.Denials {
		rows = append(rows, fmt.Sprintf("| %d | %s | %s | %s |", c.Keys,
			c.Without.show("%.1f"), c.With.over(c.Without).percentMore().spread("%+.1f"), c.Share.show("%.2f")))
	}
	return table("| denied keys | server without, µs | more, % | share of a profile, % |", rows...)
}
