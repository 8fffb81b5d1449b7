package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"weir/internal/app"
	"weir/internal/descriptors"
	"weir/internal/explain"
	"weir/internal/limiter"
	"weir/internal/settings"
)

// explanation is the command explain.
type explanation struct {
	Domain     anyBytes `arg:"" help:"Domain of the request."`
	Descriptor anyBytes `arg:"" help:"Entries of the descriptor, such as user=alice,path=/login. A backslash before a comma, an = or a backslash takes it as it is."`

	settings.RulesPath
	likeServer
	CacheKeyPrefix     settings.KeyPrefix `env:"CACHE_KEY_PREFIX" placeholder:"PREFIX" help:"Start of every counter's key."`
	CacheKeyHashValues bool               `env:"CACHE_KEY_HASH_VALUES" default:"false" help:"Spell descriptor values in keys as digests."`
	RedisURL           string             `name:"redis-url" env:"REDIS_URL" placeholder:"URL" help:"Redis that the server uses, which is not asked. Without it counters are in memory, and have no keys to tell."`
	RedisType          settings.RedisType `env:"REDIS_TYPE" default:"SINGLE" help:"What Redis consists of: SINGLE, SENTINEL or CLUSTER, whose keys have a hash tag."`

	FailureMode settings.FailureMode `env:"FAILURE_MODE" default:"error" help:"What becomes of limits without a failure_mode of their own while Redis fails."`

	Hits   *uint64 `placeholder:"N" help:"hits_addend of the descriptor itself, which may be charged although it is denied; 0 is a peek. By default it has none, and the request asks for 1."`
	Output string  `enum:"text,json" default:"text" help:"Format of the answer: text or json."`
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
		err = e.write(stdout, answer)
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
	keys, err := limiter.NewKeys(string(e.CacheKeyPrefix), e.CacheKeyHashValues)
	if err == nil && e.RedisType == settings.RedisCluster {
		keys, err = keys.InBuckets()
	}
	if err != nil {
		return nil, err
	}
	files, _, err := app.ReadRules(e.RulesPath, e.Path())
	if err == nil && len(files) == 0 {
		err = descriptors.NoFiles(e.Path())
	}
	if err != nil {
		return nil, fmt.Errorf("%w (see %s)", err, e.Named())
	}
	tree, err := descriptors.Load(files, descriptors.Options{MergeDomains: e.MergeDomainConfig})
	if err != nil {
		return nil, fmt.Errorf("invalid rules:\n%w", err)
	}
	options := e.options()
	options.Keys = keys
	answer, err := explain.Explain(explain.Question{
		Options: options, Tree: tree, Failure: app.FailureMode(e.FailureMode),
		Domain: string(e.Domain), Descriptor: entries, HitsAddend: e.Hits, Store: e.store(),
	})
	return &answer, err
}

// store is what keeps the counters of the server.
func (e explanation) store() explain.Store {
	switch {
	case e.RedisURL == "":
		return explain.InMemory
	case e.RedisType == settings.RedisCluster:
		return explain.InCluster
	default:
		return explain.InRedis
	}
}

func (e explanation) write(w io.Writer, answer *explain.Answer) error {
	if e.Output == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(answer)
	}
	return answer.WriteText(w)
}
