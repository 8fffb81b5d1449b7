// Package explain answers why a descriptor is limited as it is: the way through
// the tree of rules level by level, the rule that applies or why none does, and
// every limit with its counter's key.
//
// In comes a [Question]: a tree of rules and a descriptor. Out goes an [Answer],
// which is also the JSON of the command. Read explain.go first:
//
//	explain.go     Explain: Question -> Answer
//	limit.go       what there is to tell of each limit
//	text.go        Answer -> text, by explain.txt
//	descriptor.go  descriptors as people write them <-> entries
//
// It asks the same code that serves: plan makes the hits, limiter decides them. It
// only words what they say, and touches no counters.
package explain
