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

// changingSecrets are the settings with those secrets that come from files and commands.
type changingSecrets struct {
	start   settings.Settings // with what was read first
	secrets []secret
}

// secret is a setting with what its file or command has.
type secret struct {
	settings.SecretSource
	*follow.Text
}

// openSecrets reads the secrets that the settings name, with the operators' token, and follows
// them until a stops.
func (a *App) openSecrets() (err error) {
	x := &changingSecrets{start: a.opts.Settings}
	a.secrets = x
	var errs []error
	var names []string
	for _, source := range x.start.SecretSources() {
		o := follow.Options{
			Setting: source.String(),
			Read:    func(context.Context) (string, error) { return follow.File(source.File) },
			Every:   source.Every,
			Check:   func(text string) error { return x.start.CheckChange(x.now().With(source, text)) },
			Logger:  a.logger,
		}
		if source.Command != nil {
			o.Read = func(ctx context.Context) (string, error) { return follow.Command(ctx, source.Command) }
			o.RenewEvery = 5 * time.Second
		}
		text, err := follow.Open(a.opts.Hurry, o) // a command may hang
		errs, names = append(errs, err), append(names, source.Variable)
		x.secrets = append(x.secrets, secret{source, text})
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	x.start = x.now()
	if err := x.start.Check(); err != nil {
		return fmt.Errorf("with the secrets of %s: %w", strings.Join(names, ", "), err)
	}
	for _, s := range x.secrets {
		s.Start()
		a.parts.closer("secrets", s.Close)
	}
	a.opts.Settings = x.start
	if a.access, err = api.NewAccess(x.start.Listen.AdminTokenFile, a.opts.Registry, a.logger); err != nil {
		return err
	}
	if token := a.access.Token; token != nil {
		token.Start()
		a.parts.closer("token", token.Close)
	}
	return nil
}

// now returns the settings with the secrets as they are.
func (x *changingSecrets) now() settings.Settings {
	s := x.start
	for _, secret := range x.secrets {
		s = s.With(secret.SecretSource, secret.Text.Text())
	}
	return s
}

// ofRedis are the secrets of Redis.
func (x *changingSecrets) ofRedis() (list []secret) {
	for _, s := range x.secrets {
		if strings.HasPrefix(s.Variable, "REDIS_") {
			list = append(list, s)
		}
	}
	return list
}
