// Package xds subscribes to the resources of one type that a control plane has
// for this server, over the aggregated discovery service, in its state of the
// world form: every response holds all of them.
//
// A response is handed to Options.Apply. If that takes it, it is acknowledged;
// otherwise it is refused with the reason, and whatever was applied before stays.
// A stream that ends is opened again, after a back-off and on a new connection. A
// control plane that sends more than anybody could use, good or bad, takes neither
// the processors nor the log.
//
// The package knows nothing of rules: what resources are, and whether they are
// good, is for Apply to say.
package xds
