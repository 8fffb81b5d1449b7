// Package xds subscribes to the resources of one type that a control plane has
// for this server. It speaks the aggregated discovery service in its state of the
// world form: every response holds all resources.
//
// In comes Options: which control plane, who asks, for which type. Out go the
// responses, one at a time, to Options.Apply. A response that Apply takes is
// acknowledged. Otherwise it is refused with the error of Apply, and whatever was
// applied before stays. Client.Status says whether there is a stream.
//
// A stream that ends is opened again, after a back-off and on a new connection. After the
// first few, refusals are paced, because many control planes send again at once what was
// refused.
//
// The package knows nothing of rules: what resources are, and whether they are
// good, is for Apply to say.
//
// Read client.go first (what is asked for, and when again), then stream.go (one
// stream of requests and responses).
package xds
