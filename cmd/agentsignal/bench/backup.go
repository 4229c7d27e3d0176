package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/undo"
	"github.com/agentsignal/agentsignal/persistence/backup"
	"github.com/agentsignal/agentsignal/persistence/datadir"
	"github.com/agentsignal/agentsignal/persistence/market"
)

const (
	backupAccounts = 50
	// backupRate is how many requests a second the service answers meanwhile, and backupConnections over how many
	// connections.
	backupRate        = 200
	backupConnections = 16
	// backupPing is how often another client asks Redis for its time.
	backupPing = time.Millisecond
	// backupCaughtUp is how long the service may take for signals that it has not seen.
	backupCaughtUp = 3 * time.Minute
)

// backups measures the command backup with a million signals of 50 accounts, a tenth of them open, beside a service that
// answers requests, and the command restore into an empty Redis with as many partitions, and with twice as many.
func (b *bench) backups(ctx context.Context) (err error) {
	r, err := newRig(ctx, backupAccounts)
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	start := time.Now()
	for _, account := range r.ids {
		if _, err := r.fill(ctx, account, listSignals/backupAccounts); err != nil {
			return err
		}
	}
	b.row("a million signals written", "in %s", short(time.Since(start)))
	// The assets have a price, which closes none of the signals.
	var ticks []marketdata.AssetTick
	for i := range uint64(listAssets) {
		tick := marketdata.Tick{Price: 64250, Time: time.Now().UnixMilli()}
		ticks = append(ticks, marketdata.AssetTick{Asset: listAsset(i), Tick: tick})
	}
	if err := market.New(r.store.Client).GiveTicks(ctx, ticks); err != nil {
		return err
	}
	s, err := r.start(ctx, withTicks)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(ctx)) }()
	if err := until(ctx, backupCaughtUp, 100*time.Millisecond, func() (bool, error) { return r.hasLeaves(ctx) }); err != nil {
		return err
	}
	// Each of these requests reads from Redis.
	l := &load{addr: s.addr, request: func(i, _ int) []byte {
		return httpRequest("GET", "/v1/jobs", r.keys[i%len(r.keys)], "")
	}}
	if err := b.beside(ctx, r, l, "without a backup", func() error {
		time.Sleep(b.window)
		return nil
	}); err != nil {
		return err
	}
	file := filepath.Join(r.dir, "backup")
	var made ran
	if err := b.beside(ctx, r, l, "meanwhile", func() (err error) {
		made, err = runCommand(ctx, r.url, filepath.Join(r.dir, "node"), "backup", file)
		return err
	}); err != nil {
		return err
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	b.row("backup", "%s, %.1f MB, %s", made, float64(info.Size())/1e6, made.has())
	if err := s.stop(ctx); err != nil {
		return err
	}
	for _, partitions := range []int{made.summary.Partitions, 2 * made.summary.Partitions} {
		if err := b.restore(ctx, file, r.dir, partitions, made.summary); err != nil {
			return err
		}
	}
	return nil
}

// hasLeaves reports whether the owner of the partitions has processed all signals.
func (r *rig) hasLeaves(ctx context.Context) (bool, error) {
	c := r.store.Client
	for p := range c.Partitions() {
		events, err := c.ReadInfo(ctx, c.EventsKey(p))
		if err != nil {
			return false, err
		}
		signals, err := c.ReadInfo(ctx, c.SignalsKey(p))
		if err != nil {
			return false, err
		}
		leaves, err := c.ReadInfo(ctx, c.LeavesKey(p))
		if err != nil || leaves.Length < signals.Length {
			return false, err
		}
		position, err := r.store.Logs.OwnerPosition(ctx, p)
		if err != nil || position.Compare(events.Generated) < 0 {
			return false, err
		}
	}
	return true, nil
}

// beside measures requests and a client of Redis while f runs.
func (b *bench) beside(ctx context.Context, r *rig, l *load, when string, f func() error) error {
	running, end := context.WithCancel(ctx)
	defer end()
	var taken []time.Duration
	var longest time.Duration
	var group errgroup.Group
	group.Go(func() (err error) {
		for running.Err() == nil && err == nil {
			var some []time.Duration
			_, some, err = l.run(ctx, backupConnections, time.Second, backupRate)
			taken = append(taken, some...)
		}
		return err
	})
	group.Go(func() (err error) {
		longest, err = r.longestWait(running)
		return err
	})
	err := f()
	end()
	if err := errors.Join(err, group.Wait()); err != nil {
		return err
	}
	b.row(fmt.Sprintf("GET /v1/jobs at %d/s, %s", backupRate, when), "%s, at most %s", latencies(taken), short(slices.Max(taken)))
	b.row("longest wait of a client of Redis, "+when, "%s", short(longest))
	return nil
}

// longestWait asks Redis for its time until ctx ends, and returns how long the slowest answer took.
func (r *rig) longestWait(ctx context.Context) (longest time.Duration, err error) {
	for ctx.Err() == nil {
		start := time.Now()
		if err := r.store.Client.SyncClock(context.WithoutCancel(ctx)); err != nil {
			return 0, err
		}
		longest = max(longest, time.Since(start))
		time.Sleep(backupPing)
	}
	return longest, nil
}

// ran is a command that has ended.
type ran struct {
	taken, cpu time.Duration
	maxBytes   int64 // of its memory
	summary    backup.Summary
}

func (r ran) String() string {
	return fmt.Sprintf("%s, %s of CPU, at most %d MiB", short(r.taken), short(r.cpu), r.maxBytes>>20)
}

func (r ran) has() string {
	return fmt.Sprintf("%d entries, %d open, %d leaves", r.summary.Entries, r.summary.Open, r.summary.Leaves)
}

// runCommand runs a command of this binary with the Redis at url, which prints a summary.
func runCommand(ctx context.Context, url, dir string, args ...string) (r ran, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), "AGENTSIGNAL_REDIS_URL="+url, "AGENTSIGNAL_DATA_DIR="+dir)
	cmd.Stderr = os.Stderr
	var out bytes.Buffer
	cmd.Stdout = &out
	if r.taken, r.maxBytes, err = runChild(cmd); err != nil {
		return r, fmt.Errorf("%s: %w", args[0], err)
	}
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r, json.Unmarshal(out.Bytes(), &r.summary)
}

// restore measures a restore of file into a Redis of its own in dir.
func (b *bench) restore(ctx context.Context, file, dir string, partitions int, want backup.Summary) (err error) {
	var undone undo.List
	defer func() { err = errors.Join(err, undone.Run(context.WithoutCancel(ctx))) }()
	dir = filepath.Join(dir, fmt.Sprint("restored", partitions))
	undone.Add("directory", func(context.Context) error { return os.RemoveAll(dir) })
	redis, err := datadir.StartEmbedded(ctx, datadir.EmbeddedOptions{
		Dir: filepath.Join(dir, "redis"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	undone.Add("redis", redis.Stop)
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "partitions: %d\n", partitions), 0o600); err != nil {
		return err
	}
	got, err := runCommand(ctx, redis.URL(), dir, "restore", "--config", config, file)
	if err != nil {
		return err
	}
	if got.summary.Entries != want.Entries || got.summary.Open != want.Open {
		return fmt.Errorf("restored %s, want %s", got.has(), ran{summary: want}.has())
	}
	b.row(fmt.Sprintf("restore into %d partitions", partitions), "%s", got)
	return nil
}
