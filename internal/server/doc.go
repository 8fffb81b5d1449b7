// Package server builds a server from its settings, runs it and stops it. It is the only package
// that imports all other rooms.
//
// New loads the rules and binds the listeners, so that errors appear before anything serves. Run
// serves until its context ends, then drains. lifecycle.go starts and stops
// the components that New made. In between, rules.go with files.go or controlplane.go keeps the
// rules current, store.go waits for Redis, and health.go reports whether to send requests.
// fromsettings.go turns settings into options of other packages, for commands, too. check.go reads
// everything and serves nothing.
//
// Read app.go first.
package server
