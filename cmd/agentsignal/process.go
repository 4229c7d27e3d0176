package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/lifecycle"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/partition"
	"github.com/agentsignal/agentsignal/actors/schedule"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/undo"
	"github.com/agentsignal/agentsignal/configs"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/persistence"
)

// Time limits of the process' life.
const (
	shutdownTimeout = 10 * time.Second
	// requestGrace and runGrace are what requests and runs get of it.
	requestGrace = 5 * time.Second
	runGrace     = 5 * time.Second
	// tellGrace is what the last events get of it to reach the streams.
	tellGrace = 2 * time.Second
	// answerMargin is what a synchronous answer may take beyond its run.
	answerMargin = 30 * time.Second
	// jobMargin is how long a job may be silent beyond the timeout of runs.
	jobMargin       = 15 * time.Second
	clockEvery      = 10 * time.Second
	installEvery    = 500 * time.Millisecond
	gaugesEvery     = 15 * time.Second
	trimListsEvery  = 10 * time.Minute
	adminHeaderTime = 10 * time.Second
)

// process is a service: its parts in the order in which newProcess builds them.
type process struct {
	config   configs.Config
	log      *slog.Logger
	level    *slog.LevelVar   // of log; nil: fixed
	settings *settings        // where settings are read again; nil: nowhere
	reload   <-chan os.Signal // says when; nil: never
	demo     io.Writer        // where the demo account is printed; nil: no demo
	shutdown time.Duration    // bounds the whole of an orderly end, shutdown.delay aside
	undo     undo.List

	registry    *prometheus.Registry
	node        string
	embedded    *persistence.Embedded // nil with redis.url
	store       *persistence.Store
	events      *persistence.Log
	tail        *persistence.Tail
	credentials *credentials.Service
	limiter     *limits.Limiter
	system      *engine.System
	market      *market.Market
	feeder      *market.Feeder
	weather     *weather.Service
	climate     *weather.Simulated // moves simulated prices; nil: nothing does
	agents      *agent.Agents
	lifecycle   *lifecycle.Node
	schedules   *persistence.Schedules
	scheduler   *schedule.Node
	webhooks    *persistence.Webhooks
	secrets     *webhook.Keyring
	guard       *webhook.Guard
	deliverer   *webhook.Node
	attempts    *webhook.Metrics
	catalogue   *catalogue.Catalogue
	scorecards  *scorecard.Scorecards
	hub         *dashboard.Hub
	partitions  *partition.Partitions                // nil until the installation is known to be ours
	joined      atomic.Pointer[partition.Partitions] // partitions, once this node is known to be welcome
	certificate *certificate                         // nil without TLS
	server      *signalhttp.Server
	listener    net.Listener
	admin       net.Listener // nil without http.admin_addr

	background sync.WaitGroup
	cancel     context.CancelFunc // ends what runs in the background; nil before run
}

// run serves until ctx ends, and then ends in order. It returns nil if all went
// well.
func (p *process) run(ctx context.Context) error {
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.cancel = cancel
	failed := make(chan error)
	for what, f := range map[string]func(context.Context) error{
		"serve": func(context.Context) error { return p.server.Serve(p.listener) }, "serve admin": p.serveAdmin,
		"watch clock": p.syncClock, "keep credentials": p.credentials.Run, "limit requests": p.limiter.Run,
		"trim lists": p.trimLists, "update gauges": p.updateGauges, "read settings": p.readSettings,
	} {
		p.start(background, failed, what, f)
	}
	p.start(background, failed, "join installation", func(ctx context.Context) error { return p.join(ctx, failed) })
	p.log.Info("agentsignal listens", "addr", p.listener.Addr().String(), "version", version, "node", p.node)
	var err error
	select {
	case <-ctx.Done():
		p.log.Info("agentsignal ends")
	case err = <-failed:
	}
	p.server.Drain()
	if ctx.Err() != nil {
		time.Sleep(time.Duration(p.config.Shutdown.Delay))
	}
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), p.shutdown)
	defer stop()
	return errors.Join(err, p.undo.Run(end))
}

// start runs f beside the rest. Its error, or a panic, ends the process in order; the
// first one counts. What f does again and again goes on after a panic by guards of its own.
func (p *process) start(ctx context.Context, failed chan<- error, what string, f func(context.Context) error) {
	p.background.Go(func() {
		err := panics.ErrPanicked
		panics.Guard(p.log, panics.Background, func() { err = f(ctx) }, "task", what)
		if err != nil {
			select {
			case failed <- fmt.Errorf("%s: %w", what, err):
			case <-ctx.Done():
			}
		}
	})
}

// stopBackground ends what runs beside the rest, and waits for it.
func (p *process) stopBackground(ctx context.Context) error {
	if p.cancel == nil {
		return nil
	}
	p.cancel()
	unblocked := p.store.EndBlocking()
	ended := make(chan struct{})
	go func() {
		p.background.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return unblocked
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join waits until Redis has told that the installation is the configured one, and
// then takes part in it. An error means that this process must not.
func (p *process) join(ctx context.Context, failed chan<- error) error {
	for {
		err := p.store.Install(ctx)
		if err == nil {
			err = p.store.SyncClock(ctx)
		}
		if err == nil {
			break
		}
		if signal.KindOf(err) == signal.KindConflict {
			return err
		}
		if !p.reportRefusal(err) {
			p.log.Warn("redis is waited for: start it, or correct the setting redis.url", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(installEvery):
		}
	}
	p.partitions = partition.New(p.system, p.node, p.store, p.events, partition.Options{Lease: time.Duration(p.config.Lease),
		Alone: !p.config.Cluster, Tail: p.tail, Log: p.log, Webhooks: ownedWebhooks{p.webhooks, p.deliverer}, Lifecycle: p.lifecycle, Schedules: p.scheduler,
		Trimmer: persistence.NewTrimmer(p.store, persistence.TrimOptions{Retention: time.Duration(p.config.Signals.Retention)})})
	for what, f := range map[string]func(context.Context) error{"read events": p.tail.Run, "read market": p.market.Run,
		"feed market": p.feed, "watch weather": p.weather.Run, "work on jobs": p.agents.Work} {
		p.start(ctx, failed, what, f)
	}
	if err := p.partitions.Join(ctx); err != nil {
		return err
	}
	p.joined.Store(p.partitions)
	p.log.Info("agentsignal serves", "version", version, "node", p.node)
	if p.demo != nil {
		return p.runDemo(ctx)
	}
	return nil
}

// reportRefusal logs an error of Redis that waiting does not cure, and returns whether
// err is one.
func (p *process) reportRefusal(err error) bool {
	reason, setting := persistence.Refusal(err)
	if setting {
		p.log.Error("redis refuses this service: correct the setting redis.url, or the user in redis", "reason", reason, "err", err)
	}
	return setting
}

// handOver gives this node's partitions to others before the rest ends: nothing that
// requests and streams still need depends on who owns a partition.
func (p *process) handOver(ctx context.Context) error {
	if joined := p.joined.Load(); joined != nil {
		return joined.Leave(ctx)
	}
	return nil
}

// subscribe hands what the tail reads to all who follow it: first who may no
// longer see it, then the streams, the lists and the owners.
func (p *process) subscribe() {
	p.tail.Subscribe(func(_ int, events []signal.Event) { p.credentials.Forget(events) })
	p.tail.Subscribe(p.hub.Publish)
	p.tail.Subscribe(p.catalogue.Publish)
	p.tail.Subscribe(func(n int, events []signal.Event) { p.partitions.Publish(n, events) })
	p.tail.OnRollback(func(n int) {
		p.scorecards.ForgetAll()
		p.partitions.RolledBack(n)
	})
	p.tail.OnGap(func(n int) {
		p.credentials.ForgetAll()
		p.hub.Gap(n)
		p.catalogue.Gap(n)
		p.partitions.Gap(n)
	})
}

// tellAll waits until the streams were given what clients have been answered. Where
// that takes too long, those who come back get it elsewhere.
func (p *process) tellAll(ctx context.Context) error {
	if !p.tail.Attached() {
		return nil
	}
	for n := range p.store.Partitions() {
		head, err := p.tail.Head(ctx, n)
		if err == nil {
			err = p.tail.Wait(ctx, n, head)
		}
		if err != nil {
			p.log.Warn("streams end before they were told everything", "err", err)
			return nil
		}
	}
	return nil
}

// health says how the process is.
func (p *process) health() signalhttp.Health {
	return signalhttp.Health{
		Alive: p.system.Alive,
		Redis: func(ctx context.Context) error {
			err := p.store.Ready(ctx)
			if err == nil {
				return nil
			}
			reason, _ := persistence.Refusal(err)
			return &signal.Error{Kind: signal.KindUnavailable, Message: cmp.Or(reason, "redis cannot be reached"), Cause: err}
		},
		Streams: func(context.Context) error {
			if !p.tail.Attached() {
				return errors.New("the tail is not attached")
			}
			return nil
		},
		Actors: func(ctx context.Context) error {
			if p.joined.Load() == nil {
				return errors.New("the node has not joined the installation")
			}
			return p.system.Alive(ctx)
		},
		Warnings: func() []string {
			if p.embedded != nil && !p.embedded.Durable() {
				return []string{"No Redis server is installed: data are kept in this process, and nothing survives a restart."}
			}
			return nil
		},
	}
}

// listen binds the addresses.
func (p *process) listen(ctx context.Context) error {
	var lc net.ListenConfig
	var err error
	if p.listener, err = lc.Listen(ctx, "tcp", p.config.HTTP.Addr); err != nil {
		return listenFault("http.addr", err)
	}
	p.undo.Add("listener", func(context.Context) error {
		p.listener.Close() // the server has closed it if it served
		return nil
	})
	p.undo.Add("requests", within(requestGrace, p.server.Shutdown))
	if p.config.HTTP.AdminAddr == "" {
		return nil
	}
	if p.admin, err = lc.Listen(ctx, "tcp", p.config.HTTP.AdminAddr); err != nil {
		return listenFault("http.admin_addr", err)
	}
	p.undo.Add("admin listener", func(context.Context) error {
		p.admin.Close()
		return nil
	})
	return nil
}

// listenFault explains why nothing can listen at the address of a setting.
func listenFault(setting string, err error) error {
	advice := "choose another address"
	if errors.Is(err, syscall.EADDRINUSE) {
		advice = "stop what listens there, or choose another address"
	}
	return fmt.Errorf("%s: %w: %s", setting, err, advice)
}

// serveAdmin serves metrics and profiles to operators, where that is asked for.
func (p *process) serveAdmin(context.Context) error {
	if p.admin == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: adminHeaderTime}
	if err := s.Serve(p.admin); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// syncClock keeps this node's clock by that of Redis.
func (p *process) syncClock(ctx context.Context) error {
	return every(ctx, p.log, clockEvery, func() {
		if err := p.store.SyncClock(ctx); err != nil && ctx.Err() == nil && !p.reportRefusal(err) {
			p.log.Debug("clock is not compared", "err", err)
		}
	})
}

// updateGauges shows how full Redis' streams are, and what waits for webhooks.
func (p *process) updateGauges(ctx context.Context) error {
	update := func() {
		if err := errors.Join(p.store.UpdateGauges(ctx), p.observeWebhooks(ctx)); err != nil && ctx.Err() == nil {
			p.log.Debug("gauges are not updated", "err", err)
		}
	}
	panics.Guard(p.log, panics.Background, update) // what is in Redis was there before this process
	return every(ctx, p.log, gaugesEvery, update)
}

// trimLists gives back the memory of signals past retention.
func (p *process) trimLists(ctx context.Context) error {
	return every(ctx, p.log, trimListsEvery, p.catalogue.Trim)
}

// readSettings reads certificates, log level and rate limits again when it is told
// to. What is not valid changes nothing.
func (p *process) readSettings(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.reload:
		}
		err := panics.ErrPanicked
		panics.Guard(p.log, panics.Background, func() { err = p.applySettings() })
		if err != nil {
			p.log.Error("settings are not read again: the old ones stay", "err", err)
			continue
		}
		p.log.Info("settings were read again")
	}
}

func (p *process) applySettings() error {
	c, err := p.settings.load()
	if err != nil {
		return err
	}
	quotas, err := quotasOf(c.RateLimit)
	if err != nil {
		return err
	}
	if err := p.certificate.load(c.TLS); err != nil {
		return err
	}
	p.limiter.SetQuotas(quotas)
	setLevel(p.level, c.Log.Level)
	return nil
}

// every calls f now and then until ctx ends.
func every(ctx context.Context, log *slog.Logger, d time.Duration, f func()) error {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			panics.Guard(log, panics.Background, f)
		}
	}
}

// within bounds f by d.
func within(d time.Duration, f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return f(ctx)
	}
}

// signalRecords is the store as the catalogue reads it.
type signalRecords struct{ *persistence.Store }

// ScanSignals implements catalogue.Records.
func (r signalRecords) ScanSignals(ctx context.Context, p int, f func(catalogue.Entry) error) error {
	return r.Store.ScanSignals(ctx, p, func(e persistence.SignalEntry) error { return f(catalogue.Entry(e)) })
}

// eventLog is the event log as the dashboard's resumes read it.
type eventLog struct {
	*persistence.Store
	tail *persistence.Tail
}

// Wait implements dashboard.EventLog.
func (l eventLog) Wait(ctx context.Context, partition int, p signal.Position) error {
	return l.tail.Wait(ctx, partition, p)
}
