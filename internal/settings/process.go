package settings

import "time"

// Process says how the process logs and ends.
type Process struct {
	LogLevel     LogLevel      `env:"LOG_LEVEL" default:"info" help:"Least severe messages that are logged: debug, info, warn or error."`
	LogFormat    LogFormat     `env:"LOG_FORMAT" default:"text" help:"Format of the log: text or json."`
	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT" default:"10s" min:"1ms" help:"How long requests in flight may take to finish after SIGTERM or SIGINT."`
}
