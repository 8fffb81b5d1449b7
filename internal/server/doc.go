// Package server is the server as a whole: it builds every part from its settings,
// joins them, and leads them from start to end. It is the only package that
// knows all others.
//
// New loads the rules and binds the listeners, so that whatever is wrong shows
// before anything serves. Run serves until its context ends, then drains. In
// between, rules.go and files.go keep the rules as their files are, store.go
// waits for Redis, and health.go reports whether to send requests.
package server
