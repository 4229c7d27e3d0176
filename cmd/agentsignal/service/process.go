package service

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/partition"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/configs"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/signals"
)

const shutdownTimeout = 10 * time.Second

// process is a service: its parts, what runs them, and what ends them.
type process struct {
	environment
	node       *node
	background *background
	systemd    notifier
	ownership  *partitionMetrics
	waiting    *waiting // nil if Redis answered at once

	// Once Redis has answered.
	*parts
	admin   *admin
	server  *signalhttp.Server
	serving atomic.Pointer[signalhttp.Server] // server, or that of waiting; nil before both
	alive   atomic.Pointer[readiness]
}

// newProcess builds the service. When it returns, the address is bound, but nothing is served
// yet. Without Redis run builds the parts, since the installation decides about the number of partitions.
func newProcess(ctx context.Context, c configs.Config, o Options) (_ *process, err error) {
	o = o.withDefaults()
	registry := prometheus.NewRegistry()
	log := slog.New(newLogCounter(o.Log.Handler(), registry))
	p := &process{
		environment: environment{config: c, options: o, log: log, registry: registry, stops: &command.Stops{}},
		background:  newBackground(log),
		systemd:     notifier{log},
		ownership:   &partitionMetrics{},
	}
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(),
		readyGauge(log, &p.serving),
		p.ownership,
	)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stops.Run(context.WithoutCancel(ctx)))
		}
	}()
	if p.node, err = newNode(ctx, p.environment); err != nil {
		return nil, err
	}
	s, err := openStorage(ctx, p.environment, p.node)
	switch {
	case redisIsAbsent(err):
		return p, p.wait()
	case err != nil:
		return nil, err
	}
	return p, p.build(ctx, s)
}

// wait builds the server that answers while this process waits for Redis.
func (p *process) wait() (err error) {
	if p.waiting, err = newWaiting(p.environment, p.node); err != nil {
		return err
	}
	p.stops.Add("waiting", func(ctx context.Context) error { // does nothing if the parts have ended already
		return errors.Join(p.waiting.server.Shutdown(ctx), p.background.group.Close(ctx))
	})
	p.serving.Store(p.waiting.server)
	return nil
}

// build builds the parts and the server on them.
func (p *process) build(ctx context.Context, s *storage) error {
	built, err := build(p.environment, p.node, s, p.background)
	if err != nil {
		return err
	}
	p.parts = built
	if p.server, err = newService(p.environment, p.node, built, startTracing(p.environment)); err != nil {
		return err
	}
	if p.admin, err = newAdmin(ctx, p.environment); err != nil {
		return err
	}
	p.stops.Add("partitions", func(ctx context.Context) error {
		p.system.ShutdownFollows()
		return p.membership.leave(ctx)
	})
	p.alive.Store(p.readiness)
	if waiting := p.serving.Swap(p.server); waiting != nil {
		p.server.TakeOver(waiting)
	}
	return nil
}

// run serves until ctx ends and then shuts down. It returns nil if nothing has failed.
func (p *process) run(ctx context.Context) error {
	p.log.Info("agentsignal listens", "addr", p.node.listener.Addr().String(), "version", Version, "node", p.node.id)
	server := p.serving.Load()
	p.background.start(ctx, map[string]func(context.Context) error{
		"serve": func(context.Context) error { return server.Serve(p.node.listener) },
	})
	// Not when it is ready to serve: without Redis systemd would end it.
	p.systemd.notify(daemon.SdNotifyReady, "STATUS=starts, or waits for Redis")
	stopWatchdog := p.systemd.feedWatchdog(func(ctx context.Context) error {
		if r := p.alive.Load(); r != nil {
			return r.alive(ctx)
		}
		return nil
	})
	defer stopWatchdog()
	if err := p.awaitRedis(ctx); err != nil || p.parts == nil {
		return errors.Join(err, within(p.options.Shutdown, p.stops.Run)(context.WithoutCancel(ctx)))
	}
	p.work(ctx)
	var err error
	select {
	case <-ctx.Done():
		p.log.Info("agentsignal ends")
	case err = <-p.background.failed:
	}
	delay := time.Duration(p.config.Shutdown.Delay)
	p.systemd.notifyEnd(delay + 2*p.options.Shutdown) // a hand-over has a limit of its own
	p.server.Drain()
	ending := context.WithoutCancel(ctx)
	if ctx.Err() != nil {
		drained := time.After(delay)
		err = errors.Join(err, within(p.options.Shutdown, p.membership.handOver)(ending))
		<-drained
	}
	stopWatchdog() // its question would fail
	return errors.Join(err, within(p.options.Shutdown, p.stops.Run)(ending))
}

// awaitRedis builds the parts if Redis has not answered newProcess. If ctx ends before it does, p.parts stays nil.
func (p *process) awaitRedis(ctx context.Context) error {
	if p.parts != nil {
		return nil
	}
	s, err := p.waiting.await(ctx, func(ctx context.Context) (*storage, error) {
		return openStorage(ctx, p.environment, p.node)
	})
	if err != nil || s == nil {
		return err
	}
	return p.build(ctx, s)
}

// work starts what runs before the node has joined the installation, and the join.
func (p *process) work(ctx context.Context) {
	care := &maintenance{p.log, p.store.Client, p.catalogue, p.scorecards, p.skills, p.hub}
	gauges := &gauges{p.log, p.store, p.webhooks.Stats, p.attempts, p.ownership}
	reload := &reloader{p.options.settings, p.options.Reload, p.node.certificate, p.limiter, p.options.level, p.log, p.systemd}
	p.background.start(ctx, map[string]func(context.Context) error{
		"serve admin":      p.admin.serve,
		"watch clock":      care.syncClock,
		"keep credentials": p.credentials.Run,
		"end credentials": func(ctx context.Context) error {
			return p.followEnded(ctx, p.store.Credentials, p.hub)
		},
		"limit requests":    p.limiter.Run,
		"trim memory":       care.trimMemory,
		"return memory":     care.returnMemory,
		"limit heap":        func(ctx context.Context) error { return limitHeap(ctx, p.log) },
		"update gauges":     gauges.run,
		"reload settings":   reload.run,
		"join installation": p.join,
	})
}

// join waits until Redis confirms that the installation is the configured one and the live nodes
// fit, and then joins it. An error means that this process must not join.
func (p *process) join(ctx context.Context) error {
	if installed, err := p.membership.awaitInstallation(ctx); !installed {
		return err
	}
	if entered, err := p.membership.enter(ctx); !entered {
		return err
	}
	partitions := p.newPartitions()
	p.tail.Subscribe(partitions.Publish) // see subscribe
	p.tail.OnRollback(partitions.RolledBack)
	p.tail.OnGap(partitions.Gap)
	p.background.start(ctx, map[string]func(context.Context) error{
		"read events":    p.tail.Run,
		"read market":    p.market.Run,
		"feed market":    p.feed,
		"share outcomes": p.outcomes.Run,
		"watch weather":  p.weather.Run,
		"work on jobs":   p.agents.Work,
		"watch redis":    p.risks.run,
		"watch record":   p.checkpoints.Watch,
		"show followed":  p.membership.publishFollowed,
		"share readers":  p.membership.shareReaders,
	})
	if err := partitions.Join(ctx); err != nil {
		return err
	}
	p.background.start(ctx, map[string]func(context.Context) error{"stay in the installation": partitions.Stay})
	p.membership.joined.Store(partitions)
	p.ownership.observe(partitions, p.store.Client.Partitions())
	p.systemd.notify("STATUS=serves")
	p.log.Info("agentsignal serves", "version", Version, "node", p.node.id)
	d := demo{p.options.Demo, p.config, p.node.listener, p.prices, p.credentials, p.schedules,
		p.ownAgents, p.background}
	return d.run(ctx)
}

// newPartitions starts the actors of this node's partitions, which announce the node at once.
func (p *process) newPartitions() *partition.Partitions {
	// In the order in which they are started and given the events of a partition.
	tenants := []ownership.Tenant{p.deliverer, p.lifecycle, p.scheduler}
	p.store.Leaves.Cost = costOf(p.config.Costs)
	if !p.options.Unrecorded {
		tenants = append(tenants, p.checkpoints, p.audit)
	}
	return partition.New(p.system, p.node.id, newPartitionStore(p.store), p.events, partition.Options{
		Lease:      time.Duration(p.config.Lease),
		SingleNode: !p.config.Cluster,
		Tail:       p.tail.For(eventlog.Owned),
		Tenants:    tenants,
		Webhooks:   p.webhooks.Retention,
		Compactor:  p.store.Signals,
		Trimmer: eventlog.NewTrimmer(p.store.Logs, eventlog.TrimOptions{
			Retention: time.Duration(p.config.Signals.Retention),
		}),
		Log: p.log,
	})
}

// partitionStore has the records of a partition: its logs, lease and due runs, and the deleted
// accounts, whose records are of every kind.
type partitionStore struct {
	*signals.Store
	*eventlog.Leases
	*eventlog.Positions
	*eventlog.Nodes
	partition.Eraser
}

func newPartitionStore(s *persistence.Store) partitionStore {
	return partitionStore{s.Signals, s.Logs.Leases, s.Logs.Positions, s.Logs.Nodes, s.Eraser}
}
