package bench

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// Placeholder stands for the number of the key in the value of an entry.
const Placeholder = "{}"

// Traffic says what the requests are.
type Traffic struct {
	Domain      string
	Descriptors [][]Entry // of each request, at least one; Placeholder is replaced in every value
	Hits        uint32    // hits_addend of each request, 0 is the server's 1
	Keys        int       // how many different keys there are, 1 or more
	// Distribution of the keys over the requests.
	Distribution Distribution
	Exponent     float64 // of Zipf, above 1: the larger, the fewer keys get most requests
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
		return wrong("Domain", "it is empty")
	case len(t.Descriptors) == 0:
		return wrong("Descriptors", "none is given")
	case t.Keys < 1:
		return wrong("Keys", "%d is not allowed, allowed is 1 or more", t.Keys)
	case t.Distribution == Zipf && !(t.Exponent > 1 && t.Exponent <= math.MaxFloat64):
		return wrong("Exponent", "%g is not allowed, allowed are numbers above 1", t.Exponent)
	}
	switch t.Distribution {
	case Uniform, Zipf, Hot:
		return nil
	}
	return wrong("Distribution", "%q is not allowed, allowed are %s, %s and %s", t.Distribution, Uniform, Zipf, Hot)
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

// request is the one message of a caller, which is given another key each time.
type request struct {
	message *ratelimitv3.RateLimitRequest
	keyed   []keyed
}

// keyed is an entry whose value holds the key.
type keyed struct {
	entry   *commonv3.RateLimitDescriptor_Entry
	pattern string
}

func (t *Traffic) request() *request {
	r := &request{message: &ratelimitv3.RateLimitRequest{Domain: t.Domain, HitsAddend: t.Hits}}
	for _, entries := range t.Descriptors {
		d := new(commonv3.RateLimitDescriptor)
		for _, e := range entries {
			entry := &commonv3.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value}
			if strings.Contains(e.Value, Placeholder) {
				r.keyed = append(r.keyed, keyed{entry, e.Value})
			}
			d.Entries = append(d.Entries, entry)
		}
		r.message.Descriptors = append(r.message.Descriptors, d)
	}
	return r
}

// append appends the request for a key, encoded, to b.
func (r *request) append(b []byte, key int) ([]byte, error) {
	number := strconv.Itoa(key)
	for _, k := range r.keyed {
		k.entry.Value = strings.ReplaceAll(k.pattern, Placeholder, number)
	}
	return proto.MarshalOptions{}.MarshalAppend(b, r.message)
}
