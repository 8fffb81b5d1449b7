package settings

import "fmt"

// Failure says what becomes of requests while Redis fails.
type Failure struct {
	Mode FailureMode `name:"failure-mode" env:"FAILURE_MODE" default:"error" help:"Default failure_mode of limits while Redis cannot decide: error (UNAVAILABLE), allow, deny, or local (count in this process)."`
}

// FailureMode is what becomes of a limit while Redis fails.
type FailureMode string

// UnmarshalText accepts error, allow, deny and local.
func (m *FailureMode) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case "error", "allow", "deny", "local":
		*m = FailureMode(s)
		return nil
	default:
		return fmt.Errorf("%q is not a failure mode, allowed are error, allow, deny and local", text)
	}
}
