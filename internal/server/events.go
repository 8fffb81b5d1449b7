package server

import "weir/internal/operators"

// openEvents begins to send events of reached thresholds. It returns nil if the settings name no URL.
func openEvents(o Options, life *lifecycle, secrets *secrets, store *store) *operators.Events {
	if o.Settings.Events.URL == "" {
		return nil
	}
	events := operators.NewEvents(operators.EventOptions{
		URL: o.Settings.Events.URL, Auth: func() string { return string(secrets.now().Events.Auth) },
		Shared: store.shared, Registerer: o.Registry, Logger: o.Logger,
	})
	life.background("events", events.Run)
	return events
}
