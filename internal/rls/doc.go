// Package rls is Envoy's face of Weir: the gRPC service
// envoy.service.ratelimit.v3.RateLimitService and its twin POST /json.
//
// A request goes through these files in this order: codec.go takes the bytes
// from gRPC, decode.go reads them, hits.go finds the limits they ask for, the
// limiter decides, answer.go says what that means for each descriptor,
// headers.go and metadata.go add what is optional, encode.go writes the bytes
// of the response.
//
// The messages are read and written by hand rather than by generated code,
// because Envoy puts the raw bytes of headers into protobuf strings: a value
// that is not UTF-8 must be counted like any other, while generated code refuses
// the whole request, and Envoy then lets it pass unlimited.
//
// The package holds no rules and no counters, and opens no listener.
package rls
