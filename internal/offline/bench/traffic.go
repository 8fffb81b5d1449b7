package bench

import (
	"math/rand/v2"
	"strconv"
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Placeholder stands for the number of the key in the values of entries.
const Placeholder = "{}"

// Traffic describes the requests.
type Traffic struct {
	Domain      string    `json:"domain" default:"api" help:"Domain of the requests."`
	Descriptors [][]Entry `json:"descriptors" kong:"-"` // descriptors of each request, at least one; every Placeholder is replaced
	Keys        int       `json:"keys" default:"1000" help:"Number of different keys."`
	Hits        uint32    `json:"hits" default:"1" help:"Units that each request asks for (hits_addend). 0 omits the field, which servers treat as 1."`
	// Draw, if not nil, returns a function that draws the number of the next key. By
	// default, all keys are equally likely.
	Draw func(*rand.Rand) func() int `json:"-" kong:"-"`
}

// Entry is one key and value of a descriptor.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// requests returns a function that makes the requests of one caller. Equal seeds draw equal keys.
// Each call changes and returns the same message, so a request is valid until the next call.
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
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // keys need not be hard to guess
	draw := func() int { return rng.IntN(t.Keys) }
	if t.Draw != nil {
		draw = t.Draw(rng)
	}
	return func() *ratelimitv3.RateLimitRequest {
		number := strconv.Itoa(draw())
		for _, k := range withKey {
			k.entry.Value = strings.ReplaceAll(k.pattern, Placeholder, number)
		}
		return message
	}
}
