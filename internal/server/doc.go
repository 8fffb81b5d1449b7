// Package server is the server as a whole: it makes every part from its settings, joins
// them, and runs them from start to end. It is the only package that knows all others.
//
// New loads the rules and binds the listeners, so that whatever is wrong shows before
// anything serves. Run serves until its context ends, then drains. lifecycle.go starts and stops
// the components that New made. In between, rules.go with files.go or controlplane.go keeps the
// rules current, store.go waits for Redis, and health.go reports whether to send requests.
// fromsettings.go turns settings into options of other packages, for commands, too.
//
// Read app.go first.
package server
