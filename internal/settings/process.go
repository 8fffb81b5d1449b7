package settings

import "time"

// Process says how the process logs and ends.
type Process struct {
	LogLevel     LogLevel      `env:"LOG_LEVEL" default:"info" help:"Least severe messages to log: debug, info, warn or error."`
	LogFormat    LogFormat     `env:"LOG_FORMAT" default:"text" help:"text, or json with the fields @timestamp, level and @message."`
	DrainDelay   time.Duration `env:"DRAIN_DELAY" default:"5s" min:"0s" help:"Time after SIGTERM to fail health checks and still serve. SIGINT or a second signal ends it."`
	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT" default:"10s" min:"1ms" help:"Time after that for open requests."`
}
