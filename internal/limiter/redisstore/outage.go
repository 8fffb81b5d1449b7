package redisstore

import (
	"log/slog"
	"time"
)

// quiet is the least time between two warnings. A Redis that fails every other
// call, such as a full one, must not fill the log.
const quiet = 10 * time.Second

// outage logs when Redis begins to fail and when it works again. It is for one
// goroutine at a time.
type outage struct {
	log    *slog.Logger
	on     bool
	warned time.Time
}

// observe notes the outcome of a call.
func (o *outage) observe(err error) {
	switch {
	case err == nil && o.on:
		o.on = false
		o.log.Info("redis works again", "after", time.Since(o.warned).Round(time.Millisecond))
	case err != nil && !o.on && time.Since(o.warned) >= quiet:
		o.on, o.warned = true, time.Now()
		o.log.Warn("redis fails", "kind", string(classify(err)), "err", err)
	}
}
