package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"weir/internal/offline/bench"
	"weir/internal/offline/explain"
)

// benchmark is the command bench.
type benchmark struct {
	Servers []string `arg:"" optional:"" name:"server" default:"127.0.0.1:8081" help:"gRPC addresses of the servers, such as host:port or unix:PATH, by default 127.0.0.1:8081. Any server of Envoy's RateLimitService v3 will do."`

	Rate        float64        `default:"0" help:"Requests per second of an open loop, sent by a plan that waits for no answer; latencies count from the planned time, and those of requests that fail or are never sent until they are given up. By default a closed loop: each caller sends its next request when the last is answered."`
	Callers     *int           `placeholder:"N" help:"Requests that may wait for an answer at once. By default 64, of an open loop 512; never more than --requests."`
	Connections int            `default:"4" help:"Connections, dealt out to the servers in turn; never more than callers."`
	Duration    time.Duration  `default:"10s" help:"How long requests are sent. An interruption (Ctrl-C) ends them early, waits a second at most for the last answers, and shows what was measured; a second one ends at once."`
	Warmup      *time.Duration `placeholder:"DURATION" help:"How much of that, at the start, is not measured. By default a tenth, and at most 1s; nothing with --requests."`
	Requests    int64          `default:"0" placeholder:"N" help:"At most so many requests are sent, those of the warm-up included. 0 is no bound but the duration."`
	Timeout     time.Duration  `default:"0s" help:"After which a request is given up, since it was sent; it counts as failed, and with the time it waited in the latencies. 0 is never. The last answers are waited for at most 10s."`

	benchTLS `embed:""`

	Domain       string   `default:"api" help:"Domain of the requests."`
	Descriptor   []string `default:"user={}" sep:"none" help:"Entries of a descriptor, such as user={},path=/login, where {} is the number of a key. May be given several times: each request carries all."`
	Keys         int      `default:"1000" help:"How many different keys there are."`
	Distribution string   `enum:"uniform,zipf,hot" default:"uniform" help:"How the keys are drawn: uniform, zipf or hot, which is one key only."`
	ZipfExponent float64  `default:"1.1" help:"Exponent of zipf, above 1. The larger, the fewer keys get most requests."`
	Hits         uint32   `default:"1" help:"Units that each request asks for (hits_addend). 0 leaves them out, which servers take for 1."`

	PID    []int  `name:"pid" placeholder:"PID" help:"Local processes whose CPU time per answer is measured, such as the server and its Redis. It is, like the rate of answers, of the time between the warm-up and the last request that is sent."`
	Output string `enum:"text,json" default:"text" help:"Format of the result: text or json."`
}

// run puts the load on the servers and prints what was measured. Progress is
// shown if stderr is a terminal.
func (b benchmark) run(ctx context.Context, stdout, stderr io.Writer) int {
	opts, err := b.options()
	if err != nil {
		fmt.Fprintf(stderr, "weir: %v\n", err)
		return exitUsage
	}
	progress := false
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		opts.Progress = func(p bench.Progress) {
			progress = true
			fmt.Fprintf(stderr, "\r%3.0f s of %.0f s  sent %d  answered %d  failed %d ", p.Elapsed.Seconds(), p.Duration.Seconds(), p.Sent, p.Answered, p.Failures)
		}
	}
	result, err := bench.Run(ctx, opts)
	if progress {
		fmt.Fprintln(stderr)
	}
	if err == nil && result.Measured() == 0 {
		fmt.Fprintf(stderr, "weir: nothing was measured%s\n", why(ctx, opts, result))
		return exitFailed
	}
	if err == nil {
		err = writeResult(stdout, b.Output, result)
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "weir: %v\n", byFlag(err))
		return exitUsage
	case result.Failed+result.Unsent > 0:
		return exitFailed
	default:
		return exitOK
	}
}

// why returns why nothing was measured.
func why(ctx context.Context, opts bench.Options, result *bench.Result) string {
	if ctx.Err() != nil {
		return fmt.Sprintf(" yet: interrupted in the warm-up of %v", opts.Warmup)
	}
	return fmt.Sprintf(": of %d requests all were due in the warm-up of %v", result.SentWithWarmup, opts.Warmup)
}

// flags by the options that they set, where they are not called alike.
var flags = map[string]string{"Descriptors": "descriptor", "Exponent": "zipf-exponent", "PIDs": "pid"}

// byFlag names the flag of an option that is not allowed.
func byFlag(err error) error {
	wrong, ok := errors.AsType[*bench.OptionError](err)
	if !ok {
		return err
	}
	return fmt.Errorf("--%s: %w", cmp.Or(flags[wrong.Option], strings.ToLower(wrong.Option)), wrong.Err)
}

func (b benchmark) options() (bench.Options, error) {
	opts := bench.Options{
		Servers: b.Servers, Connections: b.Connections, Callers: b.callers(),
		Rate: b.Rate, Duration: b.Duration, Warmup: b.warmup(), Requests: b.Requests, Timeout: b.Timeout,
		Traffic: bench.Traffic{
			Domain: b.Domain, Hits: b.Hits,
			Keys: b.Keys, Distribution: bench.Distribution(b.Distribution), Exponent: b.ZipfExponent,
		},
		PIDs: b.PID,
	}
	var err error
	if opts.TLS, err = b.config(); err != nil {
		return opts, err
	}
	for _, text := range b.Descriptor {
		parsed, err := explain.ParseDescriptor(text)
		if err != nil {
			return opts, fmt.Errorf("--descriptor: %q: %w", text, err)
		}
		var entries []bench.Entry
		for _, e := range parsed {
			entries = append(entries, bench.Entry(e))
		}
		opts.Traffic.Descriptors = append(opts.Traffic.Descriptors, entries)
	}
	return opts, nil
}

// callers is how many are given, or what keeps servers busy.
func (b benchmark) callers() int {
	switch {
	case b.Callers != nil:
		return *b.Callers
	case b.Rate > 0:
		return 512
	default:
		return 64
	}
}

// warmup is what is given, or what a run of any duration can do without.
func (b benchmark) warmup() time.Duration {
	if b.Warmup != nil {
		return *b.Warmup
	}
	if b.Requests > 0 {
		return 0 // or all might be sent before anything is measured
	}
	return min(b.Duration/10, time.Second)
}
