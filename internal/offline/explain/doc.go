// Package explain answers why a descriptor is limited as it is: the way through
// the tree of rules level by level, the rule that applies or why none does, and
// every limit with its counter's key.
//
// In comes a [Question]: a tree of rules and a descriptor. Out goes an [Answer],
// which is also the JSON of the command. Read explain.go first:
//
//	parse.go     a descriptor as people write it -> entries; format.go is the way back
//	question.go  Question
//	explain.go   Explain: Question -> Answer
//	text.go      Answer -> text
//
// It asks the same code that serves: plan makes the hits, limiter decides them. It
// only words what they say, for people and as JSON, and touches no counters.
package explain
