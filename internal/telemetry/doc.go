// Package telemetry counts what is decided, for Prometheus and statsd.
//
// Hits and their decisions go in; sums by domain, keys, rule and limit come out. Read
// usage.go first, then:
//
//	sums.go    what is counted of a hit
//	keep.go    which series stay when rules change
//	collect.go the series for Prometheus
//
// A new number of a limit is a Sum, with its row in metrics (sums.go). What is counted of
// requests is in package rls.
package telemetry
