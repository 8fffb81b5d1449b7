// Package limitcases holds tests only: limits that people asked for, with their
// very numbers, one file for each wish. They read as examples of what a limit
// promises, in memory and on Redis.
//
//   - hour_budget_test.go: a budget per hour that a client cannot lose by asking
//     too often, alone and beside limits per second and minute.
//   - api_key_test.go: a limit per minute and API key whose counters go away by
//     themselves.
//   - multiplier_test.go: periods of several units, counted from the first hit or
//     by a token bucket, on the clock of Redis.
//   - attack_test.go: many clients at once on a small limit, across the ends of
//     its windows.
//   - herd_test.go: many workers that wait as they are told, on a small limit.
//
// That every store decides each request as limiter.Decide does is shown by
// storetest; the arithmetic of the algorithms is judged in package limiter.
package limitcases
