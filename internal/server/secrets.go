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

// secret is a setting with what its file or command has.
type secret struct {
	settings.SecretSource
	*follow.Text
}

// openSecrets reads the secrets that the settings name, with the operators' token, and follows
// them until a stops.
func (a *App) openSecrets() (err error) {
	var errs []error
	var names []string
	for _, source := range a.opts.Settings.SecretSources() {
		o := follow.Options{
			Setting: source.String(),
			Read:    func(context.Context) (string, error) { return follow.File(source.File) },
			Every:   source.Every,
			Check:   func(text string) error { return a.opts.Settings.CheckChange(a.now().With(source, text)) },
			Logger:  a.logger,
		}
		if source.Command != nil {
			o.Read = func(ctx context.Context) (string, error) { return follow.Command(ctx, source.Command) }
			o.RenewEvery = 5 * time.Second
		}
		text, err := follow.Open(a.opts.Hurry, o) // a command may hang
		errs, names = append(errs, err), append(names, source.Variable)
		a.secrets = append(a.secrets, secret{source, text})
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	a.opts.Settings = a.now()
	if err := a.opts.Settings.Check(); err != nil {
		return fmt.Errorf("with the secrets of %s: %w", strings.Join(names, ", "), err)
	}
	for _, s := range a.secrets {
		s.Start()
		a.parts.closer("secrets", s.Close)
	}
	a.access, err = api.NewAccess(a.opts.Settings.Listen.AdminTokenFile, a.opts.Registry, a.logger)
	if err == nil && a.access.Token != nil {
		a.access.Token.Start()
		a.parts.closer("token", a.access.Token.Close)
	}
	return err
}

// now returns the settings with the secrets as they are.
func (a *App) now() settings.Settings {
	s := a.opts.Settings
	for _, secret := range a.secrets {
		s = s.With(secret.SecretSource, secret.Text.Text())
	}
	return s
}
