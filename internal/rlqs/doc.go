// Package rlqs divides limits among Envoys that ask for no request: it serves Envoy's
// envoy.service.rate_limit_quota.v3.RateLimitQuotaService for rules with quota_service.
//
// An Envoy reports the use of its buckets every five seconds, and gets a share of each bucket's
// limit: a token bucket that it fills and empties alone until the share expires. The shares of all
// Envoys add up to the limit at most. There is no acknowledgement, and reports get lost. So a share
// is charged from its assignment until it has expired and its tokens have filled again.
//
// Start with service.go, then read the files in the order of a report:
//
//	service.go  a stream: messages of an Envoy, and answers to it
//	wire.go     bytes -> usages, shares -> bytes
//	pool.go     Pool: usages -> demands, and shares -> answers, in rounds
//	bucket.go   a bucket: who holds which share until when
//	fair.go     demands -> shares, max-min fair
//	metrics.go  Pool for metrics and operators
//
// A limiter.ShareStore divides a limit among servers. Without one, the limit belongs to this server.
// The package has no counters and opens no listener.
package rlqs
