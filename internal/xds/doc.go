// Package xds subscribes to a control plane's resources of one type for this server. It uses the
// aggregated discovery service in the state-of-the-world variant: every response contains all
// resources.
//
// Options name the control plane, this node and the type. The client passes the responses to
// Options.Apply, one at a time. It acknowledges a response if Apply returns nil. Otherwise it
// refuses the response with Apply's error, and the resources of the last accepted response stay
// in use. Client.Status reports whether there is a stream.
//
// When a stream ends, the client opens another stream on a new connection, after a back-off. After 30
// seconds without a response, it immediately opens another stream, if possible to another address of
// the control plane's name, because only one replica of some control planes responds. All refusals
// after the first few are delayed, because many control planes repeat a refused response immediately.
//
// The package knows nothing of rules: Apply decides whether resources are valid.
//
// Read client.go first (options, connections, waits), then stream.go (requests and responses) and
// codec.go (the bound of a response).
package xds
