// Package limiter decides requests against limits, exactly and all or nothing.
//
// It holds the words of the trade as types (Limit, Hit, Decision, State), the
// algorithm as pure functions of a state and a time, the spelling of counter
// keys, and the contract of a Store. It imports the standard library alone; its
// sub-packages hold the stores.
package limiter
