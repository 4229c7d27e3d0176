// Package service builds and runs the process: it maps the configuration to the options of
// each package, builds the parts in the order of their dependencies, joins the installation,
// and ends all parts in reverse order under one deadline.
//
// It has the tests of the whole service, and the map of the packages in imports_test.go.
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

// Options configure a process in addition to its configuration. The zero value works.
type Options struct {
	Demo   io.Writer        // to which the demo account is printed; nil: no demo
	Reload <-chan os.Signal // requests to reload the settings; nil: none
	// Unrecorded leaves the signals without a record, to measure what the record costs.
	Unrecorded bool

	Log       *slog.Logger  // of New; default: discards
	Shutdown  time.Duration // limit of a shutdown without shutdown.delay; default 10 s
	AlertWait time.Duration // until a slow alert of a chart program is queued; default 1.5 s

	settings *Settings      // to reload
	level    *slog.LevelVar // of Log; nil: fixed
}

func (o Options) withDefaults() Options {
	o.Shutdown = cmp.Or(o.Shutdown, shutdownTimeout)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Run builds a service with the configuration of s and serves until ctx ends. It logs to w
// and returns nil if nothing has failed.
func Run(ctx context.Context, s *Settings, w io.Writer, o Options) error {
	c, err := s.Load()
	if err != nil {
		return err
	}
	if o.Demo != nil && len(c.Webhooks.AllowedNetworks) == 0 {
		c.Webhooks.AllowedNetworks = demoNetworks
	}
	o.settings, o.level = s, new(slog.LevelVar)
	o.Log = newLogger(w, c.Log, o.level)
	for _, path := range configs.ReadableSecrets(os.Environ(), c.TLS.KeyFile) {
		o.Log.Warn("a file with a secret can be read by every user of this machine", "file", path)
	}
	c.Market.SourceByDefault = c.Market.SourceByDefault && o.Demo == nil
	if c.Market.SourceByDefault {
		o.Log.Warn("prices are simulated: set market.source to binance, coinbase, alpaca or stream for real ones, " +
			"or to simulated to keep these without this warning")
	}
	p, err := newProcess(ctx, c, o)
	if err != nil {
		return err
	}
	return p.run(ctx)
}
