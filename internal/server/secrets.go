package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"weir/internal/settings"
	"weir/internal/settings/follow"
)

// betweenCommands is the least time between two runs of a command whose secret is refused.
const betweenCommands = 5 * time.Second

// changingSecrets are the settings with those secrets that come from files and commands.
type changingSecrets struct {
	start   settings.Settings // with what was read first
	sources []settings.SecretSource
	secrets []*follow.Text // by source
}

// openSecrets reads the secrets that the settings name.
func (a *App) openSecrets() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-a.opts.Hurry:
			cancel() // the command of a secret may hang
		case <-ctx.Done():
		}
	}()
	x, err := readSecrets(ctx, a.opts.Settings, a.logger)
	if err != nil {
		return err
	}
	a.secrets, a.opts.Settings = x, x.start
	a.parts.closer("secrets", x.close)
	return nil
}

// readSecrets reads the secrets of s, until ctx ends, and follows them until they are closed.
func readSecrets(ctx context.Context, s settings.Settings, logger *slog.Logger) (*changingSecrets, error) {
	x := &changingSecrets{start: s, sources: s.SecretSources()}
	var errs []error
	for _, source := range x.sources {
		o := follow.Options{
			Setting: source.String(),
			Read:    func(context.Context) (string, error) { return follow.File(source.File) },
			Every:   source.Every,
			Check:   func(text string) error { return x.start.CheckChange(x.now().With(source, text)) },
			Logger:  logger,
		}
		if source.Command != nil {
			o.Read = func(ctx context.Context) (string, error) { return follow.Command(ctx, source.Command) }
			o.RenewEvery = betweenCommands
		}
		secret, err := follow.Open(ctx, o)
		errs, x.secrets = append(errs, err), append(x.secrets, secret)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	x.start = x.now()
	if err := x.start.Check(); err != nil {
		return nil, fmt.Errorf("with the secrets of %s: %w", x.names(), err)
	}
	for _, secret := range x.secrets {
		secret.Start()
	}
	return x, nil
}

// names lists the sources.
func (x *changingSecrets) names() string {
	var names []string
	for _, source := range x.sources {
		names = append(names, source.Variable)
	}
	return strings.Join(names, ", ")
}

// now returns the settings with the secrets as they are.
func (x *changingSecrets) now() settings.Settings {
	s := x.start
	for i, source := range x.sources {
		s = s.With(source, x.secrets[i].Text())
	}
	return s
}

// problems returns what is wrong with each source, "" if nothing is.
func (x *changingSecrets) problems() (problems []string) {
	for _, secret := range x.secrets {
		problems = append(problems, secret.Problem())
	}
	return problems
}

// has reports whether the variable of a source begins so.
func (x *changingSecrets) has(prefix string) bool {
	for _, source := range x.sources {
		if strings.HasPrefix(source.Variable, prefix) {
			return true
		}
	}
	return false
}

// renew has the secrets of Redis read anew, and waits for them until ctx ends.
func (x *changingSecrets) renew(ctx context.Context) {
	for i, source := range x.sources {
		if strings.HasPrefix(source.Variable, "REDIS_") {
			x.secrets[i].Renew(ctx)
		}
	}
}

func (x *changingSecrets) close() {
	for _, secret := range x.secrets {
		secret.Close()
	}
}
