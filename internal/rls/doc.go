// Package rls serves rate limit requests: by gRPC as Envoy's
// envoy.service.ratelimit.v3.RateLimitService, and by HTTP as POST /json.
//
// It turns bytes into bytes. Start with service.go, then read the files in the order of a
// request:
//
//	arrival.go  calls whose messages are not complete yet
//	codec.go    bytes from gRPC -> a call, whose memory is reused
//	decode.go   bytes -> plan.Request
//	service.go  plan.Request -> plan.Result, by a plan.Decider
//	encode.go   plan.Result -> bytes of the response
//	metadata.go the dynamic metadata of a response
//	json.go     the handler of POST /json
//	metrics.go  counters of requests
//
// The package parses and writes messages without generated code, because Envoy puts the raw
// bytes of headers into protobuf strings, and a value that is not UTF-8 must be counted like any
// other value. Generated code would refuse the request, and Envoy would then let it pass
// unlimited.
//
// The package has no rules and no counters, and opens no listener.
package rls
