package settings

import (
	"path/filepath"
	"time"
)

// RulesPath says where the rules are.
type RulesPath struct {
	Config              string `env:"CONFIG_PATH" placeholder:"PATH" help:"File or directory of the rules. By default config, or RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY if one of the first two is set."`
	RuntimeRoot         string `env:"RUNTIME_ROOT" placeholder:"PATH" help:"Root of the rules, may be a symbolic link. By default /srv/runtime_data/current if RUNTIME_SUBDIRECTORY is set."`
	RuntimeSubdirectory string `env:"RUNTIME_SUBDIRECTORY" placeholder:"NAME" help:"Directory in RUNTIME_ROOT."`
	RuntimeAppDirectory string `name:"runtime-appdirectory" env:"RUNTIME_APPDIRECTORY" default:"config" help:"Directory of the rules in RUNTIME_SUBDIRECTORY."`
	RuntimeWatchRoot    bool   `env:"RUNTIME_WATCH_ROOT" default:"true" help:"Also read files beside that directory whose name is its name, a dot and more, such as config.yaml. Needs RUNTIME_SUBDIRECTORY."`
}

// Rules says where the rules are and how they are loaded.
type Rules struct {
	RulesPath
	Reading

	ForceStart         bool          `name:"force-start-without-initial-config" env:"FORCE_START_WITHOUT_INITIAL_CONFIG" default:"false" help:"Start without valid rules. Until they come, Weir is healthy (with a control plane: once connected) and answers UNAVAILABLE."`
	HealthNeedsRules   bool          `name:"healthy-with-at-least-one-config-loaded" env:"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED" default:"false" help:"After such a start, be unhealthy until rules are loaded."`
	ConfigPollInterval time.Duration `env:"CONFIG_POLL_INTERVAL" default:"5s" min:"100ms" help:"Time between checks of the files, where a file system reports no changes."`
}

// Reading says how rules are read.
type Reading struct {
	MergeDomainConfig bool `env:"MERGE_DOMAIN_CONFIG" default:"false" help:"Let several files hold rules of one domain."`
	CalendarMonths    bool `name:"use-calendar-month-rate-limit" env:"USE_CALENDAR_MONTH_RATE_LIMIT" default:"false" help:"Count fixed windows of unit month without anchor by the calendar of UTC. Also those sent by requests."`
}

// Path is the file or directory of the rules.
func (r RulesPath) Path() string {
	switch {
	case r.Config != "":
		return r.Config
	case r.RuntimeRoot != "" || r.RuntimeSubdirectory != "":
		root := r.RuntimeRoot
		if root == "" {
			root = "/srv/runtime_data/current"
		}
		return filepath.Join(root, r.RuntimeSubdirectory, r.RuntimeAppDirectory)
	default:
		return "config"
	}
}

// WithSiblings reports whether what is beside the path and bears its name with a dot
// and more holds rules, too.
func (r RulesPath) WithSiblings() bool {
	return r.Config == "" && r.RuntimeSubdirectory != "" && r.RuntimeWatchRoot
}

// Named returns which settings made up the path.
func (r RulesPath) Named() string {
	if r.Config == "" && (r.RuntimeRoot != "" || r.RuntimeSubdirectory != "") {
		return "RUNTIME_ROOT, RUNTIME_SUBDIRECTORY, RUNTIME_APPDIRECTORY"
	}
	return "--config, CONFIG_PATH"
}
