// Package operators is what a server shows to the people who run it, and what they can do.
//
// What became of a request comes in through Observer, which hands denials to a Recorder and
// decisions to the DecisionLog. Desk answers what operators ask: who is denied, what is used
// of a descriptor's limits, which exceptions hold. Begin with operators.go.
//
//	operators.go    Desk: what can be asked, of this server or of all; kinds of errors; Servers:
//	                other servers on the same Redis, and their reports
//	observer.go     Observer: what became of requests
//	denials.go      Recorder: who was denied most, and last; Denials: that as JSON, and of
//	                several servers merged
//	decisionlog.go  DecisionLog: which decisions are written, how, and how many
//	counters.go     peek and reset
//	exceptions.go   Exceptions: those in force, shared with other servers; what one may be
//	descriptor.go   Descriptor: any bytes as JSON; Excerpt: what fits of one
//	words.go        Times and numbers as people read them
//
// Below it, api is the debug port, client asks it, and console is its page for people.
package operators
