package bench

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Placeholder stands for the number of the key in the value of an entry.
const Placeholder = "{}"

// Traffic says what the requests are.
type Traffic struct {
	Domain       string       `json:"domain" default:"api" help:"Domain of the requests."`
	Descriptors  [][]Entry    `json:"descriptors" kong:"-"` // of each request, at least one; Placeholder is replaced in every value
	Keys         int          `json:"keys" default:"1000" help:"How many different keys there are."`
	Distribution Distribution `json:"distribution" enum:"uniform,zipf,hot" default:"uniform" help:"How the keys are drawn: uniform, zipf or hot, which is one key only."`
	Exponent     float64      `json:"zipf_exponent,omitempty" name:"zipf-exponent" default:"1.1" help:"Exponent of zipf, above 1. The larger, the fewer keys get most requests."`
	Hits         uint32       `json:"hits" default:"1" help:"Units that each request asks for (hits_addend). 0 leaves them out, which servers take for 1."`
}

// Entry is one key and value of a descriptor.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Distribution says how often each key is asked for.
type Distribution string

// The distributions.
const (
	Uniform Distribution = "uniform" // all equally often
	Zipf    Distribution = "zipf"    // key n with a probability that goes with (1+n)^-Exponent
	Hot     Distribution = "hot"     // key 0 only
)

func (t *Traffic) check() error {
	switch {
	case t.Domain == "":
		return errors.New("--domain: it is empty")
	case len(t.Descriptors) == 0:
		return errors.New("--descriptor: none is given")
	case t.Keys < 1:
		return fmt.Errorf("--keys: %d is not allowed, allowed is 1 or more", t.Keys)
	case t.Distribution == Zipf && !(t.Exponent > 1 && t.Exponent <= math.MaxFloat64):
		return fmt.Errorf("--zipf-exponent: %g is not allowed, allowed are numbers above 1", t.Exponent)
	}
	switch t.Distribution {
	case Uniform, Zipf, Hot:
		return nil
	}
	return fmt.Errorf("--distribution: %q is not allowed, allowed are %s, %s and %s", t.Distribution, Uniform, Zipf, Hot)
}

// keys returns a function that draws a key. Equal seeds draw equal keys.
func (t *Traffic) keys(seed uint64) func() int {
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it need not be hard to guess
	switch t.Distribution {
	case Hot:
		return func() int { return 0 }
	case Zipf:
		zipf := rand.NewZipf(rng, t.Exponent, 1, uint64(t.Keys-1))
		return func() int { return int(zipf.Uint64()) }
	default:
		return func() int { return rng.IntN(t.Keys) }
	}
}

// requests returns a function that makes the requests of a caller. Each is the
// same message with another key, so it must not be used after the next.
func (t *Traffic) requests(seed uint64) func() *ratelimitv3.RateLimitRequest {
	type keyed struct {
		entry   *commonv3.RateLimitDescriptor_Entry
		pattern string
	}
	var withKey []keyed
	message := &ratelimitv3.RateLimitRequest{Domain: t.Domain, HitsAddend: t.Hits}
	for _, entries := range t.Descriptors {
		d := new(commonv3.RateLimitDescriptor)
		for _, e := range entries {
			entry := &commonv3.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value}
			if strings.Contains(e.Value, Placeholder) {
				withKey = append(withKey, keyed{entry, e.Value})
			}
			d.Entries = append(d.Entries, entry)
		}
		message.Descriptors = append(message.Descriptors, d)
	}
	draw := t.keys(seed)
	return func() *ratelimitv3.RateLimitRequest {
		number := strconv.Itoa(draw())
		for _, k := range withKey {
			k.entry.Value = strings.ReplaceAll(k.pattern, Placeholder, number)
		}
		return message
	}
}
