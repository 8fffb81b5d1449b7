package settings

import (
	"path/filepath"
	"time"
)

// RulesPath says where the rules are.
type RulesPath struct {
	Config              string `env:"CONFIG_PATH" placeholder:"PATH" help:"File or directory of the rules. By default the directory 'config', or the one that the runtime settings name if --runtime-root or --runtime-subdirectory is set."`
	RuntimeRoot         string `env:"RUNTIME_ROOT" placeholder:"PATH" help:"Rules are in ROOT/SUBDIRECTORY/APPDIRECTORY, which may be reached by symbolic links that are turned elsewhere. By default /srv/runtime_data/current, if --runtime-subdirectory is set."`
	RuntimeSubdirectory string `env:"RUNTIME_SUBDIRECTORY" placeholder:"NAME" help:"See --runtime-root."`
	RuntimeAppDirectory string `name:"runtime-appdirectory" env:"RUNTIME_APPDIRECTORY" default:"config" help:"See --runtime-root."`
	RuntimeWatchRoot    bool   `env:"RUNTIME_WATCH_ROOT" default:"true" help:"Read also what is beside that directory and bears its name with a dot and more, such as ROOT/SUBDIRECTORY/config.yaml, which may stand alone. It needs --runtime-subdirectory."`
}

// Rules says where the rules are and how they are loaded.
type Rules struct {
	RulesPath
	Merging

	ForceStart         bool          `name:"force-start-without-initial-config" env:"FORCE_START_WITHOUT_INITIAL_CONFIG" default:"false" help:"Start even if the rules are missing or bad. Until some are loaded, requests are answered UNAVAILABLE, and the health check passes all the same. With a control plane, for which every start waits, it passes once that is reached, even if it sends nothing."`
	HealthNeedsRules   bool          `name:"healthy-with-at-least-one-config-loaded" env:"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED" default:"false" help:"After such a start, let the health check fail until rules are loaded."`
	ConfigPollInterval time.Duration `env:"CONFIG_POLL_INTERVAL" default:"5s" min:"100ms" help:"How often the rules are compared with their files, in case a file system tells of no changes."`
}

// Merging says whether the rules of a domain may be in several files.
type Merging struct {
	MergeDomainConfig bool `env:"MERGE_DOMAIN_CONFIG" default:"false" help:"Let several files hold rules of one domain."`
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

// WithSiblings tells whether what is beside the path and bears its name with a dot
// and more holds rules, too.
func (r RulesPath) WithSiblings() bool {
	return r.Config == "" && r.RuntimeSubdirectory != "" && r.RuntimeWatchRoot
}

// Named tells which settings made up the path.
func (r RulesPath) Named() string {
	if r.Config == "" && (r.RuntimeRoot != "" || r.RuntimeSubdirectory != "") {
		return "RUNTIME_ROOT, RUNTIME_SUBDIRECTORY, RUNTIME_APPDIRECTORY"
	}
	return "--config, CONFIG_PATH"
}
