// Package rlqs divides limits among Envoys, which then decide requests without asking. It serves
// envoy.service.rate_limit_quota.v3.RateLimitQuotaService for rules with quota_service.
//
// An Envoy reports the use of its buckets every five seconds, and gets a share of each bucket's
// limit: a token bucket that the Envoy fills and empties alone until the share expires. The shares of
// all Envoys add up to the limit at most. Envoys do not acknowledge shares, and reports may get lost. So a
// share is charged until it has expired, and then for the time in which its empty bucket would fill.
//
// Start with service.go, then read the files in the order of a report:
//
//	service.go  a stream: messages of an Envoy, and answers to it
//	wire.go     bytes -> usages, shares -> bytes
//	pool.go     Pool: usages -> demands, and shares -> answers, in rounds
//	bucket.go   a bucket: who holds which share until when
//	fair.go     demands -> shares, max-min fair
//	metrics.go  the metrics of a Pool, and the shares for operators
//
// A limiter.ShareStore divides a limit among servers. Without a ShareStore, this server has the whole limit.
// The package has no counters and opens no listener.
package rlqs
