// Package telemetry counts decisions for Prometheus and statsd.
//
// Hits and their decisions come in; sums by domain, keys, rule and limit go out. Read usage.go
// first, then:
//
//	sums.go    the sums that a hit increases
//	keep.go    removal of series when rules change
//	collect.go the series for Prometheus
//
// A new metric of limits is a Sum with a row in metrics (sums.go). Metrics of requests are in
// package rls.
package telemetry
