// Package accesslog reads access logs: when each request came, and what of it a proxy
// wrote down.
//
//	accesslog.go  Parser, Record: a line -> what it says
//	mapping.go    what fields are called in JSON lines: Envoy's, Istio's, nginx's and others
//	text.go       formats of text: Envoy's and Istio's default, nginx combined
//	time.go       times in all of them
//	source.go     Source: a file, gzip or not -> blocks of whole lines
//
// It knows nothing of rate limits, and judges no request.
package accesslog
