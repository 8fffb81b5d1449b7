package bench

import (
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
	Domain      string    `json:"domain" default:"api" help:"Domain of the requests."`
	Descriptors [][]Entry `json:"descriptors" kong:"-"` // of each request, at least one; Placeholder is replaced in every value
	Keys        int       `json:"keys" default:"1000" help:"Number of different keys."`
	Hits        uint32    `json:"hits" default:"1" help:"Units that each request asks for (hits_addend). 0 omits the field, which servers treat as 1."`
	// Draw returns what draws keys instead, if they are not asked for equally often.
	Draw func(*rand.Rand) func() int `json:"-" kong:"-"`
}

// Entry is one key and value of a descriptor.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// requests returns a function that makes the requests of a caller. Equal seeds draw equal keys. Each is the
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
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it need not be hard to guess
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
