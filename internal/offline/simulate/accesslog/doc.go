// Package accesslog reads access logs: the time of each request, and the properties of the
// request that a proxy logged.
//
//	accesslog.go  Parser: a line -> a Record
//	mapping.go    names of fields in JSON lines, as Envoy, Istio, nginx and others write them
//	text.go       text formats: the defaults of Envoy and Istio, and nginx combined
//	time.go       formats of times
//	source.go     Source: a file, compressed or not -> blocks of full lines
//
// The package knows nothing about rate limits.
package accesslog
