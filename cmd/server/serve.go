package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/server"
	"weir/internal/settings"
)

// afterDrain is what the server has after its drain, to leave behind what does not
// end. After that the process ends whatever hangs, such as a full pipe of the log.
const afterDrain = 5 * time.Second

// serve serves until ctx ends, and a while longer. SIGHUP loads the rules anew.
func serve(ctx context.Context, s settings.Settings, stdout, stderr io.Writer) int {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	signal.Ignore(syscall.SIGPIPE) // a reader of stdout that goes ends no server
	leave := newDeparture(ctx, s.Process.DrainDelay)
	defer leave.stop()

	log := newLossyWriter(stderr, func(lost int) {
		newLogger(s.Process, stderr).Warn("lines of the log were lost, because it was not read fast enough", "lines", lost)
	})
	defer log.close(grace)
	logger := newLogger(s.Process, log)
	recorded, _ := build()
	var running *server.App
	err := within(ctx, s.Process.DrainTimeout, func() (err error) {
		running, err = server.New(server.Options{
			Settings: s,
			Logger:   logger,
			Stdout:   stdout,
			Registry: prometheus.NewRegistry(),
			Version:  version(),
			Build:    recorded,
			Reload:   reload,
			Hurry:    leave.hurry.Done(),
		})
		return err
	})
	if err != nil {
		log.close(grace)
		tell(ctx, func() { complain(stderr, s.Process, "cannot start", err) })
		return exitFailed
	}
	err = within(leave.drained, s.Process.DrainTimeout+afterDrain, func() error { return running.Run(leave.serving) })
	if err != nil {
		log.close(grace)
		tell(leave.drained, func() { complain(stderr, s.Process, "failed", err) })
		return exitFailed
	}
	return exitOK
}
