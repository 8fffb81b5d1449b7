package settings

import "time"

// Process says how the process logs and ends.
type Process struct {
	LogLevel     LogLevel      `env:"LOG_LEVEL" default:"info" help:"Least severe messages that are logged: debug, info, warn or error."`
	LogFormat    LogFormat     `env:"LOG_FORMAT" default:"text" help:"Format of the log: text or json, with the fields @timestamp, level and @message."`
	DrainDelay   time.Duration `env:"DRAIN_DELAY" default:"5s" min:"0s" help:"How long after SIGTERM the health checks fail before anything else changes, so that clients go elsewhere while they are still served. SIGINT or a second signal ends it."`
	DrainTimeout time.Duration `env:"DRAIN_TIMEOUT" default:"10s" min:"1ms" help:"How long requests in flight may take to finish after that."`
}
