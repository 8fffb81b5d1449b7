// Package simulate replays access logs against rules, with a clock that follows the logs. It
// finds the requests and clients that would have been denied, and the share of clients that
// other amounts would have denied.
//
// The input is Options, with logs, Envoy's configuration and rules. Run returns a Report.
// Begin with simulate.go, which merges the logs. A line of a log passes through the other files in this order:
//
//	accesslog/   a file -> blocks of lines -> a Record for each line
//	source.go    source: lines of a log -> events, with their hits by Envoy's configuration and the rules
//	engine.go    engine: events -> decisions, by limiter.Count
//	table.go     table: the state of the clients of a limit, and the amount that each needs
//	curve.go     the curve of a limit: decisions with multiples of its amount
//	worst.go     the most denied clients, and the worst minute
//	compare.go   difference: the requests that one set of rules denies and another admits
//	report.go    Report; text.go writes it as text and as HTML, both with the phrases of words.tmpl
//
// The package uses no server and no store.
package simulate
