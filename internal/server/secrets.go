package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/internal/operators/api"
	"weir/internal/settings"
	"weir/internal/settings/follow"
)

// secrets are the settings with their current secrets, and the operators' token.
type secrets struct {
	settings settings.Settings // with the secrets that were read at the start
	list     []secret
	access   *api.Access
	tls      []connection
}

// connection has the name of a connection with TLS, such as redis, and its TLS files.
type connection struct {
	name string
	*follow.TLS
}

// secret is a setting that names a file or a command, with the text that Weir read from it.
type secret struct {
	settings.SecretSource
	*follow.Text
}

// openSecrets reads the secrets that the settings name, and the operators' token. While the server
// runs, it reads them again at an interval. s is nil if a secret, but not the token, is the problem.
func openSecrets(o Options, life *lifecycle) (s *secrets, err error) {
	s = &secrets{settings: o.Settings}
	var errs []error
	var names []string
	for _, source := range s.settings.SecretSources() {
		options := follow.Options{
			Setting: source.String(),
			Read:    func(context.Context) (string, error) { return follow.File(source.File) },
			Every:   time.Second,
			Check:   func(text string) error { return s.settings.CheckChange(s.now().With(source, text)) },
			Logger:  o.Logger,
		}
		if source.Command != nil {
			options.Read = func(ctx context.Context) (string, error) { return follow.Command(ctx, source.Command) }
			options.Every = 5 * time.Minute // credentials from commands are valid for at least 15 minutes
			options.RenewEvery = 5 * time.Second
		}
		text, err := follow.Open(o.Hurry, options) // a command may take a long time
		errs, names = append(errs, err), append(names, source.Variable)
		s.list = append(s.list, secret{source, text})
	}
	s.access, err = api.NewAccess(s.settings.Listen.AdminTokenFile, o.Registry, o.Logger)
	if secrets := errors.Join(errs...); secrets != nil {
		return nil, errors.Join(secrets, err)
	}
	s.settings = s.now()
	if invalid := s.settings.Check(); invalid != nil && len(names) > 0 {
		return nil, errors.Join(err, fmt.Errorf("with the secrets of %s: %w", strings.Join(names, ", "), invalid))
	}
	for _, secret := range s.list {
		life.background("secrets", secret.Run)
	}
	if err == nil && s.access.Token != nil {
		life.background("token", s.access.Token.Run)
	}
	return s, err
}

// now returns the settings with the current secrets.
func (s *secrets) now() settings.Settings {
	now := s.settings
	for _, secret := range s.list {
		now = now.With(secret.SecretSource, secret.Text.Text())
	}
	return now
}

// refused returns the reason for each changed secret or certificate that is not used.
func (s *secrets) refused(store *store) (problems []string) {
	note := func(problem string) {
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	for _, secret := range s.list {
		note(secret.Problem())
	}
	if s.access.Token != nil {
		note(s.access.Token.Problem())
	}
	for _, c := range s.tls {
		note(c.Problem())
	}
	if store.redis != nil {
		if err := store.redis.Refused(); err != nil {
			note("Redis rejects a changed URL, user or password: " + strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	return problems
}
