// Package bench is agentsignal bench: it measures the service on this machine. Each figure
// comes with one of a reference that does the least possible for the same result, measured
// in the same run, so that the ratio of the two can be compared between machines. Servers
// run as processes of this program, on loopback, with a Redis and data of their own; load
// is made in this process.
//
// Each benchmark has a file of its own. Beside them are the loads (http.go, stream_load.go,
// webhooks_load.go), the endpoints of clients (receiver.go) and the references
// (bare_server.go, bare_sender.go, package barelog).
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/undo"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/persistence"
)

// Command returns agentsignal bench, with a command for each benchmark.
func Command() *cobra.Command {
	b := &bench{}
	c := &cobra.Command{
		Use: "bench", Short: "Measure the service on this machine, each figure against a reference",
		Long: "Measure the service on this machine. Servers and load run here, on loopback and with\ndata in a temporary directory; each benchmark ends by itself.",
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
		{"webhooks", "Deliveries to the endpoints of clients, against a bare loop that signs and sends", b.webhooks},
		{"lifecycle", "A million open signals, and a hundred thousand that close", b.signalLives},
		{"calibration", "Confidence against what comes of signals", b.calibration},
		{"sizes", "Bytes and time of an idle connection, a listed signal and a run", b.sizes},
	}
	for _, m := range benchmarks {
		c.AddCommand(&cobra.Command{Use: m.name, Short: m.short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			b.out = cmd.OutOrStdout()
			return m.f(cmd.Context())
		}})
	}
	c.AddCommand(&cobra.Command{Use: "all", Short: "All of them", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		b.out = cmd.OutOrStdout()
		for _, m := range benchmarks {
			fmt.Fprintf(b.out, "\n%s: %s\n", m.name, m.short)
			if err := m.f(cmd.Context()); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
		}
		return nil
	}}, bareServerCommand(), bareSenderCommand())
	return c
}

// bench is what the benchmarks share.
type bench struct {
	out    io.Writer
	window time.Duration
}

// row prints one figure.
func (b *bench) row(what, format string, args ...any) {
	fmt.Fprintf(b.out, "  %-46s %s\n", what, fmt.Sprintf(format, args...))
}

// rig is a Redis of a benchmark's own, and services on it.
type rig struct {
	dir   string
	url   string
	redis int // its process
	store *persistence.Store
	log   *persistence.Log
	undo  undo.List
}

// newRig starts a Redis as the service would, with its append-only file.
func newRig(ctx context.Context) (_ *rig, err error) {
	r := &rig{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.undo.Run(context.WithoutCancel(ctx)))
		}
	}()
	if r.dir, err = os.MkdirTemp("", "agentsignal-bench"); err != nil {
		return nil, err
	}
	r.undo.Add("directory", func(context.Context) error { return os.RemoveAll(r.dir) })
	redis, err := persistence.StartEmbedded(ctx, persistence.EmbeddedOptions{Dir: filepath.Join(r.dir, "redis"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	r.undo.Add("redis", redis.Stop)
	if !redis.Durable() {
		return nil, errors.New("a benchmark needs redis-server: install it")
	}
	r.url, r.redis = redis.URL(), redis.PID()
	if r.store, err = persistence.Open(persistence.Options{URL: r.url}); err != nil {
		return nil, err
	}
	r.undo.Add("connection", func(context.Context) error { return r.store.Close() })
	if err := r.store.Install(ctx); err != nil {
		return nil, err
	}
	r.log = persistence.NewLog(r.store, persistence.LogOptions{AppendTimeout: 30 * time.Second, Queue: 1 << 16})
	r.undo.Add("log", r.log.Close)
	return r, nil
}

// end undoes the rig, whatever the benchmark's error.
func (r *rig) end(ctx context.Context, err *error) {
	*err = errors.Join(*err, r.undo.Run(context.WithoutCancel(ctx)))
}

// accounts makes n accounts with a key each and returns ids and keys.
func (r *rig) accounts(ctx context.Context, n int) ([]signal.AccountID, []string, error) {
	// Cheap hashes: nobody logs in.
	c := credentials.New(r.store, r.log, credentials.KeyRing{}, credentials.Options{Now: r.store.Now,
		Password: argon2id.Params{Memory: 8, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}})
	var ids []signal.AccountID
	var keys []string
	for i := range n {
		a, err := c.CreateAccount(ctx, fmt.Sprintf("bench%d@example.com", i), "a long bench password")
		if err != nil {
			return nil, nil, err
		}
		_, key, err := c.CreateKey(ctx, a.ID, "bench", nil, nil)
		if err != nil {
			return nil, nil, err
		}
		ids, keys = append(ids, a.ID), append(keys, key)
	}
	return ids, keys, nil
}

// server is a service, or the bare reference, as a process of its own.
type server struct {
	cmd  *exec.Cmd
	addr string
}

// serve starts the service on the rig's Redis and waits until it is ready. env has
// further settings.
func (r *rig) serve(ctx context.Context, env ...string) (*server, error) {
	s, err := r.start(ctx, env...)
	if err != nil {
		return nil, err
	}
	r.undo.Add("service", s.stop)
	return s, nil
}

// start is serve for a service that the caller ends.
func (r *rig) start(ctx context.Context, env ...string) (*server, error) {
	env = append(slices.Clip(env), "AGENTSIGNAL_REDIS_URL="+r.url, "AGENTSIGNAL_DATA_DIR="+filepath.Join(r.dir, "node"),
		"AGENTSIGNAL_LOG_LEVEL=warn", "AGENTSIGNAL_RUNS_MAX_CONCURRENT=100000")
	for _, class := range []string{"READS", "RUNS", "WRITES", "STREAMS", "FAILURES", "SCRAPES"} {
		env = append(env, "AGENTSIGNAL_RATE_LIMIT_"+class+"=off")
	}
	s, err := startServer(env, "serve")
	if err != nil {
		return nil, err
	}
	if err := s.waitFor(ctx, "/readyz"); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

// newService is newRig with accounts that have a key each, and a service. env has
// settings of the service.
func newService(ctx context.Context, accounts int, env ...string) (r *rig, s *server, keys []string, err error) {
	if r, err = newRig(ctx); err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			r.end(ctx, &err)
		}
	}()
	if _, keys, err = r.accounts(ctx, accounts); err != nil {
		return nil, nil, nil, err
	}
	s, err = r.serve(ctx, env...)
	return r, s, keys, err
}

// startServer runs this binary with the given arguments on a free port.
func startServer(env []string, args ...string) (*server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	ln.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "AGENTSIGNAL_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(append(cmd.Env, "AGENTSIGNAL_HTTP_ADDR="+addr), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &server{cmd, addr}, nil
}

// stop ends the server and waits for it. Further calls do nothing.
func (s *server) stop(context.Context) error {
	if s.cmd.ProcessState != nil {
		return nil
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	return s.cmd.Wait()
}

// serverStart bounds the wait for a server.
const serverStart = 30 * time.Second

func (s *server) waitFor(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, serverStart)
	defer cancel()
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+path, nil)
		if err != nil {
			return err
		}
		w, err := http.DefaultClient.Do(r)
		if err == nil {
			w.Body.Close()
			if w.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the server: %w", errors.Join(err, ctx.Err()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// pin gives the server's threads one processor.
func (s *server) pin(cpu int) error { return pinProcess(s.cmd.Process.Pid, cpu) }

func pinProcess(pid, cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("pin process %d: %w", pid, err)
		}
	}
	return nil
}

// clockTick is the unit of /proc/PID/stat, which is the same on every Linux.
const clockTick = time.Second / 100

// cpu returns the processor time that the server has used.
func (s *server) cpu() (time.Duration, error) { return processorTime(s.cmd.Process.Pid) }

func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("read processor time: unknown form")
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick, errors.Join(err1, err2)
}

// resident returns the memory of the server in bytes.
func (s *server) resident() (int64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0, errors.New("read memory: unknown form")
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// percentile returns the value below which p percent of the sorted values lie.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(float64(len(sorted))*p/100), len(sorted)-1)]
}

// latencies describes p50 and p99.
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
