package limiter

import (
	"context"
	"time"
)

// ShareStore divides the tokens of buckets among the servers that use the store. Together, the
// servers' shares of a bucket never exceed its size, unless their Held tokens do.
type ShareStore interface {
	// Share sets Granted, Others and Err of each ask. If Err is not nil, the share may or may not
	// be stored.
	Share(ctx context.Context, server string, asks []ShareAsk)
}

// ShareAsk asks for a server's share of a bucket, which replaces its previous share.
type ShareAsk struct {
	Key     string
	Size    uint64        // number of tokens in the bucket, for all servers together
	Held    uint64        // tokens that Envoys of the server may still use, which stay charged
	Want    uint64        // tokens that the server wants, at least Held
	Lasts   time.Duration // time for which the share is charged
	Demands string        // demands of the server's Envoys, for the other servers

	Granted uint64
	Others  []string // demands of the other servers
	Err     error
}
