package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/agents"
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
	dir     string
	url     string
	redis   int // process ID
	store   *persistence.Store
	log     *eventlog.Log
	stops   command.Stops
	signals signalWriter
	ids     []signal.AccountID
	keys    []string // an API key of each account
	tokens  []string // of an intake of each account; see addAgents
}

// newRig starts a Redis with an append-only file, as the service does, and creates accounts.
func newRig(ctx context.Context, accounts int) (*rig, error) { return newRigOf(ctx, accounts, 0) }

// newRigOf is newRig with a number of partitions; 0 means the default.
func newRigOf(ctx context.Context, accounts, partitions int) (_ *rig, err error) {
	r := &rig{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.stops.Run(context.WithoutCancel(ctx)))
		}
	}()
	if r.dir, err = os.MkdirTemp("", "agentsignal-bench"); err != nil {
		return nil, err
	}
	r.stops.Add("directory", func(context.Context) error { return os.RemoveAll(r.dir) })
	redis, err := datadir.StartEmbedded(ctx,
		datadir.EmbeddedOptions{Dir: filepath.Join(r.dir, "redis"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	r.stops.Add("redis", redis.Stop)
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
	r.stops.Add("connection", func(context.Context) error { return r.store.Client.Close() })
	r.log = eventlog.NewLog(r.store.Logs, eventlog.LogOptions{AppendTimeout: 30 * time.Second, Queue: 1 << 16})
	r.stops.Add("log", r.log.Close)
	r.signals = signalWriter{r.log, r.store.Client.Now}
	return r, r.addAccounts(ctx, accounts)
}

// end ends the rig and joins its error to that of the benchmark.
func (r *rig) end(ctx context.Context, err *error) {
	*err = errors.Join(*err, r.stops.Run(context.WithoutCancel(ctx)))
}

// addAccounts creates n accounts with an API key each.
func (r *rig) addAccounts(ctx context.Context, n int) error {
	// The hashes are cheap, since no benchmark measures a login.
	c := credentials.New(r.store.Credentials, r.log, nil, credentials.Options{Now: r.store.Client.Now,
		Password: argon2id.Params{Memory: 8, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}})
	for i := range n {
		a, err := c.Accounts.CreateAccount(ctx, accountEmail(i), accountPassword)
		if err != nil {
			return err
		}
		_, key, err := c.Keys.CreateKey(ctx, a.ID, "bench", nil, nil)
		if err != nil {
			return err
		}
		r.ids, r.keys = append(r.ids, a.ID), append(r.keys, key)
	}
	return nil
}

// serve starts the service on the rig's Redis and waits until it is ready. env has
// further settings, which replace those of the rig.
func (r *rig) serve(ctx context.Context, env ...string) (*server, error) {
	return r.serveBy(ctx, serviceProgram(), []string{"serve"}, env...)
}

// serveBy is serve for a service of another command.
func (r *rig) serveBy(ctx context.Context, program string, command []string, env ...string) (*server, error) {
	settings := []string{"AGENTSIGNAL_REDIS_URL=" + r.url, "AGENTSIGNAL_DATA_DIR=" + filepath.Join(r.dir, "node"),
		"AGENTSIGNAL_LOG_LEVEL=warn", "AGENTSIGNAL_RUNS_MAX_CONCURRENT=100000"}
	for _, class := range []string{"READS", "RUNS", "INTAKES", "WRITES", "STREAMS", "FAILURES", "SCRAPES", "INTAKES"} {
		settings = append(settings, "AGENTSIGNAL_RATE_LIMIT_"+class+"=off")
	}
	s, err := startServer(append(settings, env...), program, command...)
	if err != nil {
		return nil, err
	}
	r.stops.Add("service", s.stop)
	return s, s.waitFor(ctx, "/readyz")
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

// runLoad returns a load of runs of all kinds for all accounts.
func (r *rig) runLoad(s *server) *load {
	return &load{addr: s.addr, request: func(connection, n int) []byte {
		key, body := r.keys[connection%len(r.keys)], runKinds[(connection+n)%len(runKinds)]
		return httpRequest("POST", "/v1/agents/trading/run", key, body)
	}}
}

// benchAgent is the agent of each account that submits signals.
var benchAgent = signal.Agent{ID: "bench_agent", Name: "Bench", Category: signal.Trading, Status: signal.AgentActive,
	Strategies: []string{"momentum", "mean_reversion", "breakout"}}

// addAgents gives each account an agent of its own with an intake for alerts.
func (r *rig) addAgents(ctx context.Context) error {
	store := agents.New(r.store.Client, r.log, nil)
	for _, id := range r.ids {
		a := benchAgent
		a.Account, a.CreatedAt = id, time.Now()
		if _, err := store.Add(ctx, a); err != nil {
			return err
		}
		token := signal.IntakeTokenPrefix + rand.Text()
		in := signal.Intake{ID: signal.NewIntakeID(), Digest: credential.DigestOf(token).String(), CreatedAt: a.CreatedAt}
		if err := store.AddIntake(ctx, id, a.ID, in); err != nil {
			return err
		}
		r.tokens = append(r.tokens, token)
	}
	return nil
}

// alertLoad returns a load of alerts, each another text, with the assets and strategies of submissionLoad.
func (r *rig) alertLoad(s *server) *load {
	var n atomic.Int64
	return &load{addr: s.addr, request: func(connection, i int) []byte {
		body := runKinds[(connection+i)%len(runKinds)]
		body = fmt.Sprintf(`%s,"action":"buy","stop":"2%%","target":"1.5R","order_id":%d}`, body[:len(body)-1], n.Add(1))
		return httpRequest("POST", "/v1/intake/"+r.tokens[connection%len(r.tokens)], "none", body)
	}}
}

// submissionLoad returns a load of submissions with the assets and strategies of runLoad.
func (r *rig) submissionLoad(s *server) *load {
	return &load{addr: s.addr, request: func(connection, n int) []byte {
		key, body := r.keys[connection%len(r.keys)], runKinds[(connection+n)%len(runKinds)]
		body = body[:len(body)-1] + `,"direction":"long","stop":{"percent":2},"target":{"r":1.5}}`
		return httpRequest("POST", "/v1/agents/bench_agent/signals", key, body)
	}}
}

// publish is a publisher of signals of the first account.
func (r *rig) publish(ctx context.Context, asset string, n uint32) error {
	return r.signals.appendCreated(ctx, r.ids[0], asset, streamPayload(asset, n))
}

// redisCPU returns the processor time that Redis has used.
func (r *rig) redisCPU() (time.Duration, error) { return processorTime(r.redis) }
