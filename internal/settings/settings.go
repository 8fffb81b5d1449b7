// Package settings holds every setting of the server once, as a struct that
// the command line parser fills from flags and environment variables.
//
// A flag wins over its variable, a variable over the default, and a variable
// that is set to nothing counts as unset. Names and defaults are those of
// envoyproxy/ratelimit where it has the setting; what it has beyond them is in
// reference.go, because to ignore some of it would be unsafe. Other variables
// are ignored. The package reads nothing else and starts nothing.
package settings

// Settings are the settings of the command serve. docs/settings.md lists them.
type Settings struct {
	Listen  Listen  `embed:"" group:"Listeners:"`
	TLS     TLS     `embed:"" group:"TLS of the gRPC listener:"`
	Rules   Rules   `embed:"" group:"Rules:"`
	XDS     XDS     `embed:"" group:"Rules by xDS:"`
	Answers Answers `embed:"" group:"Requests and answers:"`
	Store   Store   `embed:"" group:"Counters:"`
	Redis   Redis   `embed:"" group:"Redis:"`
	Failure Failure `embed:"" group:"When Redis fails:"`
	Metrics Metrics `embed:"" group:"Metrics:"`
	Tracing Tracing `embed:"" group:"Traces:"`

	DecisionLog DecisionLog `embed:"" group:"Decision log:"`

	Process Process `embed:"" group:"Process:"`

	// Warnings tell of variables of envoyproxy/ratelimit that have no effect.
	Warnings []Warning `kong:"-"`
}
