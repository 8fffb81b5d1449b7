package settings

// Failure says what becomes of requests while Redis fails.
type Failure struct {
	Mode FailureMode `name:"failure-mode" env:"FAILURE_MODE" default:"error" help:"Default failure_mode of limits while Redis cannot decide: error (UNAVAILABLE), allow, deny, or local (count in this process)."`
}

// FailureMode is what becomes of a limit while Redis fails.
type FailureMode string

// Words implements OneOf.
func (FailureMode) Words() []string { return []string{"error", "allow", "deny", "local"} }

// UnmarshalText accepts the words in any case.
func (m *FailureMode) UnmarshalText(text []byte) error {
	return choose(m, text, "is not a failure mode")
}
