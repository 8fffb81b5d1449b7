package settings

// Failure says what becomes of requests while Redis fails.
type Failure struct {
	Mode FailureMode `name:"failure-mode" env:"FAILURE_MODE" default:"error" help:"What becomes of requests on limits that do not say it themselves (failure_mode) while Redis cannot decide: error, they are answered UNAVAILABLE; allow, they pass uncounted; deny, they are over the limit; local, they are counted in the memory of this process, as many as MEMORY_MAX_COUNTERS."`
}

// FailureMode is what becomes of a limit while Redis fails.
type FailureMode string

// UnmarshalText accepts error, allow, deny and local, in any case.
func (m *FailureMode) UnmarshalText(text []byte) error {
	return choose(m, text, "is not a failure mode", "error", "allow", "deny", "local")
}
