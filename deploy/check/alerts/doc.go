// Package alerts holds the alerts and the dashboard of this directory to the metrics
// of a running server, which it reads with Prometheus' own parser and query engine.
// It is a module of its own, so that their dependencies are not the server's.
package alerts
