package redis

import (
	"context"
	_ "embed" // share.lua
	"slices"
	"strconv"

	"weir/internal/limiter"
)

// shareScript is sent as text, because Redis may have lost a loaded script, and one call serves many Envoys.
//
//go:embed share.lua
var shareScript string

// sharesAtOnce is the maximum number of asks in one pipeline.
const sharesAtOnce = 256

// Share implements limiter.ShareStore. After a pipeline that sets no share, it sends no more asks.
func (s *Shared) Share(ctx context.Context, server string, asks []limiter.ShareAsk) {
	for i := range asks {
		asks[i].Err = limiter.ErrUnavailable
	}
	for some := range slices.Chunk(asks, sharesAtOnce) {
		if !s.shareSome(ctx, server, some) {
			return
		}
	}
}

// shareSome sends asks in one pipeline. It returns false if Redis set none of the shares.
func (s *Shared) shareSome(ctx context.Context, server string, asks []limiter.ShareAsk) (works bool) {
	ctx, cancel := context.WithTimeout(ctx, s.client.Timeout())
	defer cancel()
	p := s.client.Current().Pipeline()
	var replies []interface{ StringSlice() ([]string, error) }
	for _, a := range asks {
		keys := []string{a.Key, limiter.SharesSince(s.keyPrefix, a.Key)}
		replies = append(replies, p.Eval(ctx, shareScript, keys, server, a.Size, a.Held, a.Want, a.Lasts.Milliseconds(), a.Demands))
	}
	_, _ = p.Exec(ctx) // each reply has its error
	for i, reply := range replies {
		a := &asks[i]
		texts, err := reply.StringSlice()
		if a.Err = s.failed(err); err == nil {
			a.Granted, a.Err = strconv.ParseUint(texts[0], 10, 64)
			a.Others = texts[1:]
			works = true
		}
	}
	return works
}
