// Package simulate replays access logs against rules on a clock of their own: what would
// have been denied, to whom, and which amounts would have denied how many clients.
//
// Logs, Envoy's configuration and rules come in by Options, and Run makes a Report of them.
// Begin with simulate.go, which merges the logs. The other files are in the order in which a line passes them:
//
//	accesslog/   a block of a file -> lines -> what each says of its request
//	source.go    source: lines of a log -> events, with the hits that Envoy's configuration and the rules say
//	engine.go    engine: events -> decisions, by limiter.Count
//	table.go     table: what is known of the clients of a limit
//	demand.go    demand: the amount that each client needs
//	worst.go     the clients that are denied most, and the worst minute
//	compare.go   difference: what one set of rules denies and another does not
//	report.go    Report, as text and as HTML in text.go, both in the words of words.tmpl
//
// It knows no server and no store.
package simulate
