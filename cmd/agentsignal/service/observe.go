package service

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/panics"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/tracing"
)

// buildInfo returns the metric with the version of the build.
func buildInfo() prometheus.Collector {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "agentsignal_build_info",
		Help: "1, with what the binary was built from.",
	}, []string{"version", "commit", "goversion"})
	g.WithLabelValues(Version, Commit(), runtime.Version()).Set(1)
	return g
}

// logCounter is a handler that counts what is logged, and the panics that panics.Guard logs, so that the parts
// with a log need no counter.
type logCounter struct {
	slog.Handler
	lines  map[slog.Level]prometheus.Counter
	panics *prometheus.CounterVec
}

func newLogCounter(h slog.Handler, r prometheus.Registerer) logCounter {
	lines := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentsignal_log_lines_total",
		Help: "Lines of the log, with those that are left out because they repeat another within a minute.",
	}, []string{"level"})
	c := logCounter{h, map[slog.Level]prometheus.Counter{}, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agentsignal_panics_total",
		Help: "Panics outside of actors and requests, after which the process went on, by where they were.",
	}, []string{"where"})}
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		c.lines[level] = lines.WithLabelValues(strings.ToLower(level.String()))
	}
	for _, where := range panics.Places {
		c.panics.WithLabelValues(string(where))
	}
	r.MustRegister(lines, c.panics)
	return c
}

// Handle implements slog.Handler.
func (c logCounter) Handle(ctx context.Context, r slog.Record) error {
	if lines := c.lines[r.Level]; lines != nil {
		lines.Inc()
	}
	if r.Message == panics.Message {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key != "where" {
				return true
			}
			c.panics.WithLabelValues(a.Value.String()).Inc()
			return false
		})
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (c logCounter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logCounter{c.Handler.WithAttrs(attrs), c.lines, c.panics}
}

// WithGroup implements slog.Handler.
func (c logCounter) WithGroup(name string) slog.Handler {
	return logCounter{c.Handler.WithGroup(name), c.lines, c.panics}
}

// readyGauge returns the metric of the answer of /readyz.
func readyGauge(log *slog.Logger, serving *atomic.Pointer[signalhttp.Server]) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agentsignal_ready",
		Help: "1 if /readyz answers 200, else 0.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		ready := 0.0
		panics.Guard(log, panics.Background, func() { // runs on a goroutine of the registry
			if s := serving.Load(); s != nil && s.Ready(ctx).Status == "ready" {
				ready = 1
			}
		})
		return ready
	})
}

// startTracing exports spans if the environment names a collector.
func startTracing(e environment) *tracing.Exporter {
	exporter, err := tracing.Start(os.Getenv, e.log)
	if err != nil {
		e.log.Error("spans are not exported", "err", err)
	}
	if exporter != nil {
		e.stops.Add("tracing", exporter.Close)
	}
	return exporter
}
