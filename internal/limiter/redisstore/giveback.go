package redisstore

import (
	"bytes"
	"strconv"

	"weir/internal/limiter"
)

// giveBack is what one counter was charged by a request that turned out to be
// denied, or failed, somewhere else. giveback.lua takes it back as
// limiter.Limit.GiveBack does.
type giveBack struct {
	key     []byte
	limit   *limiter.Limit
	units   int64
	charged limiter.State // of the counter, after the charge
}

// giveBacks lists what hits were charged that a denied request is not to be:
// one giveBack for each counter, however many hits it has.
func giveBacks(hits []limiter.Hit, out []limiter.Decision, states []limiter.State) (list []giveBack) {
hits:
	for i := range hits {
		h := &hits[i]
		if h.Refund || h.Always || h.Cost == 0 || out[i].Over {
			continue
		}
		for j := range list {
			if bytes.Equal(list[j].key, h.Key) {
				list[j].units += h.Units()
				continue hits
			}
		}
		list = append(list, giveBack{h.Key, h.Limit, h.Units(), states[i]})
	}
	return list
}

// addGiveBack appends g as giveback.lua reads it.
func (b *batch) addGiveBack(g giveBack) {
	b.keys.bytes = append(b.keys.bytes, g.key...)
	b.keys.end()
	b.loosened = append(b.loosened, loosened{bytes.Clone(g.key), b.requests.len()})
	n := g.limit.Numbers()
	text := b.requests.bytes
	for _, n := range [...]int64{
		g.units, g.charged.At, g.charged.Used, g.charged.Prev, g.limit.Period().Microseconds(),
		int64(n.Kind), n.Of[0], n.Of[1], n.Of[2], n.Of[3],
	} {
		text = append(strconv.AppendInt(text, n, 10), ' ')
	}
	b.requests.bytes = text
	b.requests.end()
}
