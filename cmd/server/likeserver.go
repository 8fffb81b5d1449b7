package main

import (
	"weir/internal/app"
	"weir/internal/plan"
	"weir/internal/settings"
)

// likeServer are settings of the server on which its answers depend, for
// commands that answer in its place.
type likeServer struct {
	MergeDomainConfig bool            `env:"MERGE_DOMAIN_CONFIG" default:"false" help:"Let several files hold rules of one domain. This and the next settings are those of the server."`
	StopWhenOverLimit settings.Choice `name:"stop-cache-key-increment-when-overlimit" env:"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT" placeholder:"true|false" help:"Whether a denied request is kept out of the counters."`
	ShadowMode        bool            `env:"SHADOW_MODE" default:"false" help:"Deny no request."`
	QuotaMode         bool            `env:"QUOTA_MODE" default:"false" help:"Take every limit for a quota."`
}

// options returns those of them on which decisions depend.
func (l likeServer) options() plan.Options {
	return plan.Options{Charge: app.Charge(l.StopWhenOverLimit), ShadowMode: l.ShadowMode, QuotaMode: l.QuotaMode}
}
