// Command agentsignal-bench measures the service on this machine. Each figure is printed beside
// that of a reference, which does the minimum for the same result and is measured in the same run,
// so that their ratio can be compared between machines. Servers run as processes of this program,
// on loopback, with a Redis and data of their own; this process generates the load. The console has
// fixed targets and no reference; it needs a browser.
//
// Each benchmark has a file of its own. Beside them are the loads (http.go, stream_load.go,
// webhooks_load.go, console_load.go), the browser (console_page.go), the endpoints of clients
// (receiver.go) and the references (bare_server.go, bare_sender.go, package barelog).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "agentsignal-bench:", err)
		os.Exit(1)
	}
}

// benchmark is one of the commands.
type benchmark interface {
	// measure prints its figures.
	measure(ctx context.Context) error
}

// adjustable is a benchmark with flags of its own.
type adjustable interface {
	define(c *cobra.Command)
}

// named is a benchmark with its name and purpose.
type named struct {
	name, short string
	benchmark   benchmark
}

// benchmarks returns all benchmarks, which print to r.
func benchmarks(r *report) []named {
	stream := &streamBenchmark{r}
	return []named{
		{"append", "Durable appends by 256 callers, against a bare pipeline", &appendBenchmark{r}},
		{"runs", "POST /v1/agents/trading/run to durable", &runsBenchmark{r}},
		{"lists", "GET /v1/signals with a million signals", &listsBenchmark{r}},
		{"stream", "Fan-out to 1,000 and 10,000 connections, against a bare server", stream},
		{"readers", "Connections of 10,000 readers, against those of one key with their filters",
			&streamPairs{stream, (*streamPairs).readers, 0}},
		{"events", "Server-Sent Events, against WebSockets", &streamPairs{stream, (*streamPairs).events, 0}},
		{"webhooks", "Deliveries to the endpoints of clients, against a bare loop that signs and sends", &webhooksBenchmark{r}},
		{"lifecycle", "A million open signals, and a hundred thousand that close", &lifecycleBenchmark{r}},
		{"record", "What the Merkle log adds to a run", &recordBenchmark{r}},
		{"calibration", "Confidence against the outcomes of signals", &calibrationBenchmark{report: r}},
		{"nodes", "What further nodes on the same Redis cost at a fixed rate of runs", &nodesBenchmark{report: r}},
		{"takeover", "How soon a node does the work of another that is killed or leaves", &takeoverBenchmark{report: r}},
		{"console", "The browser console with 10,000 rows, in Chromium", &consoleBenchmark{report: r}},
	}
}

// newRoot returns the root of all commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use: "agentsignal-bench", Short: "Measure the service on this machine, each figure against a reference",
		Long: "Measure the service on this machine. Servers and load run here, on loopback and with\n" +
			"data in a temporary directory. With BENCH_PROGRAM=FILE the services that are measured\n" +
			"are of that build of agentsignal, so that two builds can be compared in turns.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	r := &report{}
	root.PersistentFlags().DurationVar(&r.window, "window", 5*time.Second, "how long each figure is measured")
	all := benchmarks(r)
	for _, b := range all {
		c := &cobra.Command{Use: b.name, Short: b.short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				r.out = cmd.OutOrStdout()
				return b.benchmark.measure(cmd.Context())
			}}
		if a, ok := b.benchmark.(adjustable); ok {
			a.define(c)
		}
		root.AddCommand(c)
	}
	root.AddCommand(&cobra.Command{Use: "all", Short: "Run all benchmarks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.out = cmd.OutOrStdout()
			return r.measureAll(cmd.Context(), all)
		}}, serveCommand(), bareServerCommand(), bareSenderCommand())
	command.ExplainUsage(root)
	return root
}

// measureAll runs benchmarks one after the other.
func (r *report) measureAll(ctx context.Context, all []named) error {
	for _, b := range all {
		fmt.Fprintf(r.out, "\n%s: %s\n", b.name, b.short)
		err := b.benchmark.measure(ctx)
		if errors.Is(err, errNoBrowser) {
			r.row("left out", "%s", err) // servers have none, and the other figures need none
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}

// serveCommand is the service that is measured, with or without the record of signals.
func serveCommand() *cobra.Command {
	var o service.Options
	c := &cobra.Command{Use: "serve", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return service.Run(cmd.Context(), &service.Settings{}, cmd.ErrOrStderr(), o)
		}}
	c.Flags().BoolVar(&o.Unrecorded, "unrecorded", false, "leave the signals without a record")
	return c
}
