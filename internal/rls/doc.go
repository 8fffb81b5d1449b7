// Package rls is Envoy's face of Weir: the gRPC service
// envoy.service.ratelimit.v3.RateLimitService and its twin POST /json.
//
// Bytes come in, and bytes go out. Read service.go first, then in the order in which a
// request passes them:
//
//	codec.go    bytes from gRPC, whose memory is used again
//	decode.go   bytes -> plan.Request
//	service.go  has it decided, and shows it to an observer
//	metadata.go what a response says of the request, and of the rules that admitted it
//	encode.go   plan.Result -> the bytes of the response
//	json.go     brings JSON onto the same path
//	metrics.go  what is counted of requests
//
// The messages are read and written by hand rather than by generated code, because Envoy
// puts the raw bytes of headers into protobuf strings: a value that is not UTF-8 must be
// counted like any other, while generated code refuses the whole request, and Envoy then
// lets it pass unlimited.
//
// The package holds no rules and no counters, and opens no listener.
package rls
