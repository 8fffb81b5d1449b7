package main

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"weir/internal/descriptors"
	"weir/internal/limiter"
	"weir/internal/offline/explain"
	"weir/internal/plan"
	"weir/internal/server"
	"weir/internal/settings"
)

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

// What explain exits with, beside exitOK and exitUsage.
const exitNoRule = 1

// run explains what becomes of a descriptor.
func (e explanation) run(stdout, stderr io.Writer) int {
	answer, err := e.ask()
	if err == nil {
		err = writeResult(stdout, e.Output, answer)
	}
	switch {
	case err != nil:
		fmt.Fprintf(stderr, "weir: %v\n", err)
		return exitUsage
	case answer.Rule == "":
		return exitNoRule
	default:
		return exitOK
	}
}

func (e explanation) ask() (*explain.Answer, error) {
	entries, err := explain.ParseDescriptor(string(e.Descriptor))
	if err != nil {
		return nil, fmt.Errorf("descriptor %q: %w", e.Descriptor, err)
	}
	domain, err := explain.ParseDomain(string(e.Domain))
	if err != nil {
		return nil, fmt.Errorf("domain %q: %w", e.Domain, err)
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
	tree, err := descriptors.Load(files, server.RuleOptions(e.Reading))
	if err != nil {
		return nil, fmt.Errorf("invalid rules:\n%w", err)
	}
	options := e.options()
	options.Keys = keys
	answer, err := explain.Explain(explain.Question{
		Options: options, Tree: tree, Failure: server.FailureMode(e.Failure.Mode),
		Domain: domain, Descriptor: entries, HitsAddend: e.Hits, Store: e.store(),
	})
	return &answer, err
}

// store is what keeps the counters of the server.
func (e explanation) store() explain.Store {
	switch {
	case !e.Redis.Named():
		return explain.InMemory
	case e.Redis.Clustered():
		return explain.InCluster
	default:
		return explain.InRedis
	}
}
