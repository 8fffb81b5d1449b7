// Package server builds a server from its settings, runs it and stops it. It is the only package
// that imports all other packages of a server.
//
// New loads the rules and binds the listeners, so that errors appear before anything serves. Run serves until
// its context is done, and then drains. lifecycle.go starts and stops the components that New made. While the
// server runs, rules.go with files.go or controlplane.go keeps the rules current, store.go waits for Redis,
// and health.go reports whether clients should send requests. fromsettings.go turns settings into options for
// other packages; commands use it, too. check.go checks the settings and the connections without serving.
//
// Read app.go first.
package server
