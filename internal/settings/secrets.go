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

	used   bool
	values func(*Settings) *Secret
}

// How often a secret is read. The tokens that commands print last for 15 minutes at least.
const (
	fileEvery    = time.Second
	commandEvery = 5 * time.Minute
)

// secretSources returns a row for each setting that says where a secret comes from.
func (s *Settings) secretSources() []SecretSource {
	r := &s.Redis
	redis, perSecond := r.Main.Named(), r.Main.Named() && r.UsePerSecond
	rows := []SecretSource{
		{Variable: "REDIS_URL_FILE", File: r.Main.URLFile, used: redis, values: func(s *Settings) *Secret { return &s.Redis.Main.URL }},
		{Variable: "REDIS_AUTH_FILE", File: r.Main.AuthFile, used: redis, values: func(s *Settings) *Secret { return &s.Redis.Main.Auth }},
		{Variable: "REDIS_AUTH_COMMAND", Command: r.Main.AuthCommand.words(), Every: commandEvery, used: redis, values: func(s *Settings) *Secret { return &s.Redis.Main.Auth }},
		{Variable: "REDIS_SENTINEL_AUTH_FILE", File: r.Main.SentinelFile, used: redis, values: func(s *Settings) *Secret { return &s.Redis.Main.SentinelAuth }},
		{Variable: "REDIS_PERSECOND_URL_FILE", File: r.PerSecond.URLFile, used: perSecond, values: func(s *Settings) *Secret { return &s.Redis.PerSecond.URL }},
		{Variable: "REDIS_PERSECOND_AUTH_FILE", File: r.PerSecond.AuthFile, used: perSecond, values: func(s *Settings) *Secret { return &s.Redis.PerSecond.Auth }},
		{Variable: "REDIS_PERSECOND_AUTH_COMMAND", Command: r.PerSecond.AuthCommand.words(), Every: commandEvery, used: perSecond, values: func(s *Settings) *Secret { return &s.Redis.PerSecond.Auth }},
		{Variable: "REDIS_PERSECOND_SENTINEL_AUTH_FILE", File: r.PerSecond.SentinelFile, used: perSecond, values: func(s *Settings) *Secret { return &s.Redis.PerSecond.SentinelAuth }},
		{Variable: "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS_FILE", File: s.XDS.HeadersFile, used: s.XDS.Enabled(), values: func(s *Settings) *Secret { return &s.XDS.Headers }},
	}
	for i := range rows {
		if rows[i].Command == nil {
			rows[i].Every = fileEvery
		}
	}
	return rows
}

// words are what blanks separate.
func (s Secret) words() []string {
	if s == "" {
		return nil
	}
	return strings.Fields(string(s))
}

// isSet reports whether the setting names a file or a command.
func (r SecretSource) isSet() bool { return r.File != "" || r.Command != nil }

// SecretSources returns the sources of the secrets that are needed.
func (s *Settings) SecretSources() (sources []SecretSource) {
	for _, r := range s.secretSources() {
		if r.isSet() && r.used {
			sources = append(sources, r)
		}
	}
	return sources
}

// With returns the settings with a secret from a source of theirs.
func (s Settings) With(source SecretSource, text string) Settings {
	*source.values(&s) = Secret(text)
	return s
}

// CheckChange returns why next, which differs in secrets, cannot take the place of the
// settings while the server runs.
func (s *Settings) CheckChange(next Settings) error {
	errs := []error{next.Check()}
	for _, r := range []struct{ before, after RedisServer }{{s.Redis.Main, next.Redis.Main}, {s.Redis.PerSecond, next.Redis.PerSecond}} {
		if errs[0] == nil && r.before.URL != r.after.URL {
			errs = append(errs, r.before.checkChange(r.after))
		}
	}
	return errors.Join(errs...)
}

// isSecretPath reports whether text is surely a path, or nothing, and no secret that was
// written where the path of its file belongs.
func isSecretPath(text string) bool {
	return text == "" || strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./")
}

// checkSources returns an error if a secret has two sources, a path is none, or a command
// has no word.
func (s *Settings) checkSources() error {
	taken := map[*Secret]string{}
	var errs []error
	for _, r := range s.secretSources() {
		if r.Command != nil && len(r.Command) == 0 {
			errs = append(errs, wrong(r.Variable, "is empty; use a program and its arguments"))
		}
		if !isSecretPath(r.File) {
			errs = append(errs, wrong(r.Variable, "is not the path of a file; use a path that begins with / or ./"))
		}
		if !r.isSet() {
			continue
		}
		value := r.values(s)
		own := strings.TrimSuffix(strings.TrimSuffix(r.Variable, "_FILE"), "_COMMAND")
		switch other := taken[value]; {
		case *value != "":
			errs = append(errs, wrong(r.Variable, "and %s are both set; use only one", settingName(own)))
		case other != "":
			errs = append(errs, wrong(r.Variable, "and %s are both set; use only one", settingName(other)))
		}
		taken[value] = r.Variable
	}
	return errors.Join(errs...)
}

// String returns what errors call the source.
func (r SecretSource) String() string {
	return settingName(r.Variable)
}
