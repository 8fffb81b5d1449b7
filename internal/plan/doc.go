// Package plan says what a request asks of limits, and what their decisions mean
// for it. It is the only place where a request becomes hits, and where decisions
// become statuses; it reads no bytes and keeps no counters.
//
// A Request goes in, and a Result comes out. Read decide.go first, then in the order in
// which a request passes them:
//
//	decide.go    Decider: rules and store of the moment, and all steps of a decision
//	request.go   Request: what is asked, and what is wrong with it
//	plan.go      Prepare: Request and rules -> Hits
//	override.go  the limits that requests bring along
//	exception.go what exceptions make of limits
//	made.go      remembers the limits that overrides and exceptions make
//	status.go    SetStatuses: Decisions -> Statuses
//	outcome.go   what each limit meant, for those who observe
package plan
