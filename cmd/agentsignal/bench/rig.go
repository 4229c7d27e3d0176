package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/undo"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/datadir"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// withTicks makes a service read prices from Redis only.
const withTicks = "AGENTSIGNAL_MARKET_SOURCE=stream"

// accountPassword is that of all accounts of a rig.
const accountPassword = "a long bench password"

// accountEmail returns the address of the i-th account of a rig.
func accountEmail(i int) string { return fmt.Sprintf("bench%d@example.com", i) }

// rig is a Redis of a benchmark's own with accounts, and services on it.
type rig struct {
	dir   string
	url   string
	redis int // process ID
	store *persistence.Store
	log   *eventlog.Log
	undo  undo.List
	ids   []signal.AccountID
	keys  []string // an API key of each account
}

// newRig starts a Redis with an append-only file, as the service does, and creates accounts.
func newRig(ctx context.Context, accounts int) (*rig, error) { return newRigOf(ctx, accounts, 0) }

// newRigOf is newRig with a number of partitions; 0 means the default.
func newRigOf(ctx context.Context, accounts, partitions int) (_ *rig, err error) {
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
	redis, err := datadir.StartEmbedded(ctx,
		datadir.EmbeddedOptions{Dir: filepath.Join(r.dir, "redis"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	r.undo.Add("redis", redis.Stop)
	if !redis.Durable() {
		return nil, errors.New("a benchmark needs redis-server: install it")
	}
	r.url, r.redis = redis.URL(), redis.PID()
	o, err := redisclient.Installed(ctx, persistence.Options{URL: r.url, Partitions: partitions})
	if err != nil {
		return nil, err
	}
	if r.store, err = persistence.Open(o); err != nil {
		return nil, err
	}
	r.undo.Add("connection", func(context.Context) error { return r.store.Client.Close() })
	r.log = eventlog.NewLog(r.store.Logs, eventlog.LogOptions{AppendTimeout: 30 * time.Second, Queue: 1 << 16})
	r.undo.Add("log", r.log.Close)
	return r, r.addAccounts(ctx, accounts)
}

// end ends the rig and joins its error to that of the benchmark.
func (r *rig) end(ctx context.Context, err *error) {
	*err = errors.Join(*err, r.undo.Run(context.WithoutCancel(ctx)))
}

// addAccounts creates n accounts with an API key each.
func (r *rig) addAccounts(ctx context.Context, n int) error {
	// The hashes are cheap, since no benchmark measures a login.
	c := credentials.New(r.store.Credentials, r.log, nil, credentials.Options{Now: r.store.Client.Now,
		Password: argon2id.Params{Memory: 8, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}})
	for i := range n {
		a, err := c.CreateAccount(ctx, accountEmail(i), accountPassword)
		if err != nil {
			return err
		}
		_, key, err := c.CreateKey(ctx, a.ID, "bench", nil, nil)
		if err != nil {
			return err
		}
		r.ids, r.keys = append(r.ids, a.ID), append(r.keys, key)
	}
	return nil
}

// newSignal returns an open signal of an account.
func (r *rig) newSignal(account signal.AccountID, asset string) *signal.Signal {
	return &signal.Signal{
		ID:         signal.NewSignalID(),
		Account:    account,
		Agent:      "trading",
		Run:        signal.NewRunID(),
		Asset:      asset,
		Strategy:   "momentum",
		Timeframe:  signal.H1,
		Risk:       signal.MediumRisk,
		Direction:  signal.Long,
		Confidence: .45,
		Metadata:   []byte(appendMetadata),
		Levels:     &signal.Levels{Entry: 64250.125, Stop: 62900.125, Target: 66275.125},
		ExpiresAt:  r.store.Client.Now().Add(24 * time.Hour),
	}
}

// open stores a signal and appends its event.
func (r *rig) open(ctx context.Context, s *signal.Signal) (signal.Position, error) {
	listing := s.Listing()
	event := signal.Event{Type: signal.SignalCreated, Asset: s.Asset, Listing: &listing, Data: []byte(appendPayload)}
	return r.log.Append(ctx, signal.Change{Account: s.Account, Signal: s, Events: []signal.Event{event}})
}

// appendCreated appends the event of a new signal without storing the signal.
func (r *rig) appendCreated(ctx context.Context, account signal.AccountID, asset string, data []byte) error {
	listing := signal.Listing{
		ID:         signal.NewSignalID(),
		Agent:      "trading",
		Asset:      asset,
		Strategy:   "momentum",
		Direction:  signal.Long,
		Confidence: .4372,
	}
	event := signal.Event{Type: signal.SignalCreated, Asset: asset, Listing: &listing, Data: data}
	_, err := r.log.Append(ctx, signal.Change{Account: account, Events: []signal.Event{event}})
	return err
}

// serve starts the service on the rig's Redis and waits until it is ready. env has
// further settings, which replace those of the rig.
func (r *rig) serve(ctx context.Context, env ...string) (*server, error) {
	return r.serveAs(ctx, []string{"serve"}, env...)
}

// serveAs is serve for a service of another command.
func (r *rig) serveAs(ctx context.Context, command []string, env ...string) (*server, error) {
	s, err := r.startAs(ctx, command, env...)
	if err != nil {
		return nil, err
	}
	r.undo.Add("service", s.stop)
	return s, nil
}

// start is serve for a service that the caller ends.
func (r *rig) start(ctx context.Context, env ...string) (*server, error) {
	return r.startAs(ctx, []string{"serve"}, env...)
}

func (r *rig) startAs(ctx context.Context, command []string, env ...string) (*server, error) {
	settings := []string{"AGENTSIGNAL_REDIS_URL=" + r.url, "AGENTSIGNAL_DATA_DIR=" + filepath.Join(r.dir, "node"),
		"AGENTSIGNAL_LOG_LEVEL=warn", "AGENTSIGNAL_RUNS_MAX_CONCURRENT=100000"}
	for _, class := range []string{"READS", "RUNS", "WRITES", "STREAMS", "FAILURES", "SCRAPES"} {
		settings = append(settings, "AGENTSIGNAL_RATE_LIMIT_"+class+"=off")
	}
	s, err := startServer(append(settings, env...), command...)
	if err != nil {
		return nil, err
	}
	if err := s.waitFor(ctx, "/readyz"); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

// newService is newRig with a service. env has settings of the service.
func newService(ctx context.Context, accounts int, env ...string) (*rig, *server, error) {
	r, err := newRig(ctx, accounts)
	if err != nil {
		return nil, nil, err
	}
	s, err := r.serve(ctx, env...)
	if err != nil {
		r.end(ctx, &err)
	}
	return r, s, err
}
