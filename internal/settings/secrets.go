package settings

import (
	"errors"
	"strings"
	"time"
)

// SecretSource is a setting that says where a secret comes from: a file or a command.
type SecretSource struct {
	Variable string
	File     string        // its path
	Command  []string      // instead of a file: a program and its arguments
	Every    time.Duration // between two readings

	used  bool
	value *Secret
}

// String returns what errors call the source.
func (r SecretSource) String() string { return settingName(r.Variable) }

// How often a secret is read. The tokens that commands print last for 15 minutes at least.
const (
	fileEvery    = time.Second
	commandEvery = 5 * time.Minute
)

// sources returns the settings that say where a secret comes from.
func (s *Settings) sources() (set []SecretSource) {
	add := func(row SecretSource) {
		row.Every = fileEvery
		if row.Command != nil {
			row.Every = commandEvery
		}
		if row.File != "" || row.Command != nil {
			set = append(set, row)
		}
	}
	ofRedis := func(prefix string, r *RedisServer, used bool) {
		add(SecretSource{Variable: prefix + "URL_FILE", File: r.URLFile, value: &r.URL, used: used})
		add(SecretSource{Variable: prefix + "AUTH_FILE", File: r.AuthFile, value: &r.Auth, used: used})
		add(SecretSource{Variable: prefix + "SENTINEL_AUTH_FILE", File: r.SentinelFile, value: &r.SentinelAuth, used: used})
		if r.AuthCommand != "" {
			add(SecretSource{Variable: prefix + "AUTH_COMMAND", Command: strings.Fields(string(r.AuthCommand)), value: &r.Auth, used: used})
		}
	}
	ofRedis("REDIS_", &s.Redis.Main, s.Redis.Main.Named())
	ofRedis("REDIS_PERSECOND_", &s.Redis.PerSecond, s.Redis.Main.Named() && s.Redis.UsePerSecond)
	add(SecretSource{Variable: "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS_FILE", File: s.XDS.HeadersFile, value: &s.XDS.Headers, used: s.XDS.Enabled()})
	return set
}

// SecretSources returns the sources of the secrets that are needed.
func (s *Settings) SecretSources() (sources []SecretSource) {
	for _, r := range s.sources() {
		if r.used {
			sources = append(sources, r)
		}
	}
	return sources
}

// With returns the settings with a secret from a source of theirs.
func (s Settings) With(source SecretSource, text string) Settings {
	for _, r := range s.sources() { // whose values are those of this copy
		if r.Variable == source.Variable {
			*r.value = Secret(text)
		}
	}
	return s
}

// CheckChange returns why next, which differs in secrets, cannot take the place of the
// settings while the server runs.
func (s *Settings) CheckChange(next Settings) error {
	if err := next.Check(); err != nil {
		return err
	}
	return errors.Join(s.Redis.Main.checkChange(next.Redis.Main), s.Redis.PerSecond.checkChange(next.Redis.PerSecond))
}

// checkSources returns an error if a secret has two sources, or a command has no word.
func (s *Settings) checkSources() error {
	taken := map[*Secret]string{}
	var errs []error
	for _, r := range s.sources() {
		if r.Command != nil && len(r.Command) == 0 {
			errs = append(errs, wrong(r.Variable, "is empty; use a program and its arguments"))
		}
		other := taken[r.value]
		if *r.value != "" {
			other = strings.TrimSuffix(strings.TrimSuffix(r.Variable, "_FILE"), "_COMMAND")
		}
		if other != "" {
			errs = append(errs, wrong(r.Variable, "and %s are both set; use only one", settingName(other)))
		}
		taken[r.value] = r.Variable
	}
	return errors.Join(errs...)
}
