// Package simulate replays access logs against rules, with a clock that follows the logs. It
// finds the requests and clients that would have been denied, and the share of clients that
// other amounts would have denied.
//
// The input is Options, with logs, Envoy's configuration and rules. Run makes a Report of them.
// Begin with simulate.go, which merges the logs. The order of the other files follows a line of a log:
//
//	accesslog/   a file -> blocks of lines -> a Record for each line
//	source.go    source: lines of a log -> events, with the hits that Envoy's configuration and the rules make
//	engine.go    engine: events -> decisions, by limiter.Count
//	table.go     table: the state of the clients of a limit, and the amount that each needs
//	curve.go     the curve of a limit: decisions by multiples of it
//	worst.go     the most denied clients, and the worst minute
//	compare.go   difference: the requests that one set of rules denies and another admits
//	report.go    Report; text.go writes it as text and as HTML, both with the phrases of words.tmpl
//
// The package uses no server and no store.
package simulate
