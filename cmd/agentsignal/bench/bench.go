// Package bench is agentsignal bench: it measures the service on this machine. Each figure
// is printed beside that of a reference, which does the minimum for the same result and is
// measured in the same run, so that their ratio can be compared between machines. Servers
// run as processes of this program, on loopback, with a Redis and data of their own; this
// process generates the load. The console has fixed targets and no reference; it needs a
// browser.
//
// Each benchmark has a file of its own. Beside them are the loads (http.go, stream_load.go,
// webhooks_load.go, console_load.go), the browser (console_page.go), the endpoints of clients
// (receiver.go) and the references
// (bare_server.go, bare_sender.go, package barelog).
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// Command returns agentsignal bench, with a command for each benchmark.
func Command() *cobra.Command {
	b := &bench{leaves: recordLeaves, pageWindow: consoleWindow, mixedWindow: consoleMixed, runRate: nodesRate,
		signals: takeoverSignals, rounds: takeoverRounds}
	c := &cobra.Command{
		Use: "bench", Short: "Measure the service on this machine, each figure against a reference",
		Long: "Measure the service on this machine. Servers and load run here, on loopback and with\n" +
			"data in a temporary directory. With BENCH_PROGRAM=FILE the services that are measured\n" +
			"are of that build of agentsignal, so that two builds can be compared in turns.",
	}
	c.PersistentFlags().DurationVar(&b.window, "window", 5*time.Second, "how long each figure is measured")
	benchmarks := []struct {
		name, short string
		f           func(context.Context) error
	}{
		{"append", "Durable appends by 256 callers, against a bare pipeline", b.appends},
		{"runs", "POST /v1/agents/trading/run to durable", b.runs},
		{"lists", "GET /v1/signals with a million signals", b.lists},
		{"stream", "Fan-out to 1,000 and 10,000 connections, against a bare server", b.stream},
		{"filters", "What filters and prices add to the fan-out, against the same without", b.filters},
		{"webhooks", "Deliveries to the endpoints of clients, against a bare loop that signs and sends", b.webhooks},
		{"lifecycle", "A million open signals, and a hundred thousand that close", b.lifecycle},
		{"record", "The Merkle log: its share of a run, proofs, memory", b.record},
		{"calibration", "Confidence against the outcomes of signals", b.calibration},
		{"verify", "The record of 100,000 signals verified offline, against reading it and its hashes", b.verifications},
		{"nodes", "What further nodes on the same Redis cost at a fixed rate of runs", b.nodes},
		{"takeover", "How soon a node does the work of another that is killed or leaves", b.takeover},
		{"backup", "A backup of a million signals beside a running service, and its restore", b.backups},
		{"sizes", "Bytes and time of an idle connection, a listed signal and a run", b.sizes},
		{"console", "The browser console with 10,000 rows, in Chromium", b.console},
	}
	for _, m := range benchmarks {
		one := &cobra.Command{Use: m.name, Short: m.short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				b.out = cmd.OutOrStdout()
				return m.f(cmd.Context())
			}}
		switch m.name {
		case "calibration":
			b.files.define(one)
		case "console":
			one.Flags().DurationVar(&b.pageWindow, "window", consoleWindow, "how long signals arrive, in all cases together")
			one.Flags().DurationVar(&b.mixedWindow, "mixed", consoleMixed,
				"how long 200 signals are open above a full list of closed ones")
		case "nodes":
			one.Flags().Float64Var(&b.runRate, "rate", nodesRate, "runs a second of the whole cluster")
		case "takeover":
			one.Flags().IntVar(&b.rounds, "rounds", takeoverRounds, "how often a node ends in each way")
			one.Flags().IntVar(&b.signals, "signals", takeoverSignals, "open signals that close in no round")
		case "record":
			one.Flags().Int64Var(&b.leaves, "leaves", recordLeaves, "size of the log of which signals are proved")
		}
		c.AddCommand(one)
	}
	c.AddCommand(&cobra.Command{Use: "all", Short: "Run all benchmarks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b.out = cmd.OutOrStdout()
			for _, m := range benchmarks {
				fmt.Fprintf(b.out, "\n%s: %s\n", m.name, m.short)
				err := m.f(cmd.Context())
				if errors.Is(err, errNoBrowser) {
					b.row("left out", "%s", err) // servers have none, and the other figures need none
					continue
				}
				if err != nil {
					return fmt.Errorf("%s: %w", m.name, err)
				}
			}
			return nil
		}}, bareServerCommand(), bareSenderCommand(), unrecordedServiceCommand())
	return c
}

// bench holds the options of all benchmarks.
type bench struct {
	out         io.Writer
	window      time.Duration
	pageWindow  time.Duration // of console
	mixedWindow time.Duration // of console
	files       barFiles      // of calibration
	leaves      int64         // of record
	runRate     float64       // of nodes
	signals     int           // of takeover
	rounds      int           // of takeover
}

// row prints one figure.
func (b *bench) row(what, format string, args ...any) {
	fmt.Fprintf(b.out, "  %-46s %s\n", what, fmt.Sprintf(format, args...))
}

// percentile returns the value below which p percent of the sorted values lie.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(float64(len(sorted))*p/100), len(sorted)-1)]
}

// latencies formats the p50 and p99 of values.
func latencies(values []time.Duration) string {
	slices.Sort(values)
	return fmt.Sprintf("p50 %s, p99 %s", short(percentile(values, 50)), short(percentile(values, 99)))
}

// short rounds a duration to three digits.
func short(d time.Duration) time.Duration {
	switch {
	case d > 100*time.Millisecond:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	case d > 10*time.Microsecond:
		return d.Round(100 * time.Nanosecond)
	}
	return d
}
