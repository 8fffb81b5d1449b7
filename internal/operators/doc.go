// Package operators answers the questions and carries out the orders of the people who run
// Weir.
//
// Decided requests come in through Observer, which passes denials to a Recorder and decisions
// to the DecisionLog. Desk answers operators: who is denied, how much of a descriptor's limits
// is used, which exceptions apply. Begin with desk.go.
//
//	desk.go         Desk: questions to this server or to all; kinds of errors; Servers: states
//	                and reports of the servers on the same Redis
//	observer.go     Observer: denials and decisions of each request
//	denials.go      Recorder: recent denials by key; Denials: denials of one or all servers as JSON
//	budgets.go      Spending: the counters with the largest used shares; BudgetList: their JSON
//	sent.go         sentLimits: the last limit that a request sent for each descriptor
//	events.go       Events: CloudEvents for reached thresholds
//	decisionlog.go  DecisionLog: records of decisions, at a limited rate, to a slow sink
//	counters.go     peek and reset
//	exceptions.go   ExceptionStore: exceptions in force, shared with other servers; their bounds
//	assigned.go     amounts that are assigned to limits for single descriptors
//	shared.go       Shared: the data that servers on one Redis share
//	entries.go      feed: a server's copy of the shared texts
//	descriptor.go   Excerpt: a descriptor cut to a size
//	words.go        times and numbers for people
//
// Package api is the debug port, package client is its client, and package console has its pages for browsers.
package operators
