package settings

import (
	"errors"
	"slices"
	"strings"
)

// SecretSource is a setting that names the file or the command of a secret.
type SecretSource struct {
	Variable string
	File     string   // path of the file
	Command  []string // instead of a file: a program and its arguments

	used  bool
	value *Secret
}

// String returns the name of the setting in errors.
func (r SecretSource) String() string { return settingName(r.Variable) }

// sources returns the sources that are set in s. Their value fields point into s.
func (s *Settings) sources() []SecretSource {
	r := &s.Redis
	all := append(r.Main.sources("REDIS_", r.Main.Named()), r.PerSecond.sources("REDIS_PERSECOND_", r.Main.Named() && r.UsePerSecond)...)
	all = append(all, SecretSource{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS_FILE", s.XDS.HeadersFile, nil, s.XDS.Enabled(), &s.XDS.Headers})
	all = append(all, SecretSource{"EVENTS_AUTH_FILE", s.Events.AuthFile, nil, s.Events.URL != "", &s.Events.Auth})
	return slices.DeleteFunc(all, func(r SecretSource) bool { return r.File == "" && r.Command == nil })
}

func (s *RedisServer) sources(prefix string, used bool) []SecretSource {
	all := []SecretSource{
		{prefix + "URL_FILE", s.URLFile, nil, used, &s.URL},
		{prefix + "AUTH_FILE", s.AuthFile, nil, used, &s.Auth},
		{prefix + "SENTINEL_AUTH_FILE", s.SentinelFile, nil, used, &s.SentinelAuth},
	}
	if s.AuthCommand != "" {
		all = append(all, SecretSource{prefix + "AUTH_COMMAND", "", strings.Fields(string(s.AuthCommand)), used, &s.Auth})
	}
	return all
}

// SecretSources returns the sources of the secrets that the server uses.
func (s *Settings) SecretSources() []SecretSource {
	return slices.DeleteFunc(s.sources(), func(r SecretSource) bool { return !r.used })
}

// With returns a copy of the settings with text as the secret of source.
func (s Settings) With(source SecretSource, text string) Settings {
	for _, r := range s.sources() { // their values point into this copy
		if r.Variable == source.Variable {
			*r.value = Secret(text)
		}
	}
	return s
}

// CheckChange returns an error if next, which may differ from s only in secrets, cannot replace s
// without a restart.
func (s *Settings) CheckChange(next Settings) error {
	if err := next.Check(); err != nil {
		return err
	}
	return errors.Join(s.Redis.Main.checkChange(next.Redis.Main), s.Redis.PerSecond.checkChange(next.Redis.PerSecond))
}

// checkSources returns an error if a secret has two sources, or a command is empty.
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
