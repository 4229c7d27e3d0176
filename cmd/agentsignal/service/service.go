// Package service builds and runs the process: it maps the configuration to the options of
// each package, builds the parts in the order in which they depend on each other, joins the
// installation, and ends all in reverse order under one deadline.
//
// The tests through the whole are here, and the map of the packages: imports_test.go.
package service

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/agentsignal/agentsignal/configs"
)

// Options are what a process is given beside its configuration. The zero value works.
type Options struct {
	Demo   io.Writer        // where the demo account is printed; nil: no demo
	Reload <-chan os.Signal // asks to read the settings again; nil: never

	settings *Settings      // which are read again
	log      *slog.Logger   // default: discards
	level    *slog.LevelVar // of log; nil: fixed
	shutdown time.Duration  // bounds an orderly end, shutdown.delay aside; default 10 s
}

func (o Options) withDefaults() Options {
	o.shutdown = cmp.Or(o.shutdown, shutdownTimeout)
	if o.log == nil {
		o.log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Run builds a service with the configuration of s and serves until ctx ends. It logs to
// w, and returns nil if it has ended in order.
func Run(ctx context.Context, s *Settings, w io.Writer, o Options) error {
	c, err := s.Load()
	if err != nil {
		return err
	}
	if o.Demo != nil && len(c.Webhooks.AllowedNetworks) == 0 {
		c.Webhooks.AllowedNetworks = demoNetworks
	}
	o.settings, o.level = s, new(slog.LevelVar)
	o.log = newLogger(w, c.Log, o.level)
	for _, path := range configs.ReadableSecrets(os.Environ(), c.TLS.KeyFile) {
		o.log.Warn("a file with a secret may be read by everybody on this machine", "file", path)
	}
	p, err := newProcess(ctx, c, o)
	if err != nil {
		return err
	}
	return p.run(ctx)
}
