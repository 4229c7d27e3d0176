package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/audit"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/lifecycle"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/feeder"
	"github.com/agentsignal/agentsignal/actors/notary"
	"github.com/agentsignal/agentsignal/actors/outcomes"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/partition"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/schedule"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/tasks"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/actors/webhook/guard"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/undo"
	"github.com/agentsignal/agentsignal/configs"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/datadir"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/schedules"
)

const (
	shutdownTimeout = 10 * time.Second
	requestGrace    = 5 * time.Second  // for requests, of shutdownTimeout
	runGrace        = 5 * time.Second  // for runs
	streamGrace     = 2 * time.Second  // for the last events to reach the streams
	answerMargin    = 30 * time.Second // for the answer of a synchronous run after its timeout
	jobMargin       = 15 * time.Second // for a sign of life of a job after the timeout of runs
	clockEvery      = 10 * time.Second
	gaugesEvery     = 15 * time.Second
	trimEvery       = time.Minute
	settleEvery     = 5 * time.Second
	collectEvery    = time.Second
	risksEvery      = 30 * time.Second
	adminHeaderTime = 10 * time.Second
)

// process is a service. newProcess sets its parts in this order; only joined is set
// later.
type process struct {
	config   configs.Config
	options  Options
	log      *slog.Logger
	registry *prometheus.Registry
	undo     undo.List

	// Store.
	redisMetrics *redisclient.Metrics
	node         string             // ID of this node
	place        string             // of its data directory, see datadir.NodeID.Place
	embedded     *datadir.Embedded  // nil with redis.url
	store        *persistence.Store // nil until Redis has answered
	events       *eventlog.Log
	tail         *eventlog.Tail
	signingKeys  []credential.NamedKey
	credentials  *credentials.Service
	limiter      *limits.Limiter

	// Actors.
	system     *engine.System
	market     *market.Market
	weather    *weather.Service
	climate    *weather.Simulated // moves simulated prices, or nil
	feeder     *feeder.Feeder
	catalogue  *catalogue.Catalogue
	outcomes   *outcomes.Service
	agents     *agent.Agents
	lifecycle  *lifecycle.Node
	secrets    *keyring.Ring // of webhooks
	guard      *guard.Guard
	webhooks   *deliveries.Store
	attempts   *webhook.Metrics
	deliverer  *webhook.Node
	schedules  *schedules.Store
	scheduler  *schedule.Node
	notary     *notary.Node
	recordKeys *record.Keys
	witnesses  *notary.Witnesses
	audit      *audit.Node
	scorecards *scorecard.Scorecards

	// Streams.
	hub *dashboard.Hub

	// HTTP.
	httpMetrics *signalhttp.Metrics
	certificate *certificate // nil without TLS
	server      *signalhttp.Server
	listener    net.Listener
	admin       net.Listener // nil without http.admin_addr

	// State.
	serving    atomic.Pointer[signalhttp.Server]    // server, or that of buildWaiting; nil before both
	storeFault atomic.Value                         // error: why this process waits for Redis
	joined     atomic.Pointer[partition.Partitions] // nil until this node has joined the installation
	holdings   *holdings
	risks      atomic.Pointer[[]string] // of Redis; nil until watchRedis has looked
	shortened  atomic.Pointer[[]int]    // see shortenedLogs
	background tasks.Group
}

// run serves until ctx ends and then shuts down. It returns nil if nothing has failed.
func (p *process) run(ctx context.Context) error {
	p.log.Info("agentsignal listens", "addr", p.listener.Addr().String(), "version", Version, "node", p.node)
	failed := make(chan error)
	server := p.serving.Load()
	p.start(ctx, failed, "serve", func(context.Context) error { return server.Serve(p.listener) })
	// Not when it is ready to serve: without Redis systemd would end it.
	p.notifySystemd(daemon.SdNotifyReady, "STATUS=starts, or waits for Redis")
	stopWatchdog := p.feedWatchdog()
	defer stopWatchdog()
	if err := p.awaitStore(ctx); err != nil || p.store == nil {
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), p.options.shutdown)
		defer stop()
		return errors.Join(err, p.undo.Run(end))
	}
	for what, f := range map[string]func(context.Context) error{
		"serve admin":      p.serveAdmin,
		"watch clock":      p.syncClock,
		"keep credentials": p.credentials.Run,
		"end credentials":  p.followEnded,
		"limit requests":   p.limiter.Run,
		"trim memory":      p.trimMemory,
		"return memory":    p.returnMemory,
		"keep heap small":  p.keepHeapSmall,
		"update gauges":    p.updateGauges,
		"reload settings":  p.reloadSettings,
	} {
		p.start(ctx, failed, what, f)
	}
	p.start(ctx, failed, "join installation", func(ctx context.Context) error { return p.join(ctx, failed) })
	var err error
	select {
	case <-ctx.Done():
		p.log.Info("agentsignal ends")
	case err = <-failed:
	}
	p.notifyEnd()
	p.server.Drain()
	if ctx.Err() != nil {
		drained := time.After(time.Duration(p.config.Shutdown.Delay))
		err = errors.Join(err, p.handOverEarly(ctx))
		<-drained
	}
	stopWatchdog() // its question would fail
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), p.options.shutdown)
	defer stop()
	return errors.Join(err, p.undo.Run(end))
}

// start runs f in the background. Its first error or panic shuts the process down. Periodic
// work of f has guards of its own and goes on after a panic.
func (p *process) start(ctx context.Context, failed chan<- error, what string, f func(context.Context) error) {
	p.background.Go(ctx, func(ctx context.Context) {
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

// stopBackground ends the background and waits for it.
func (p *process) stopBackground(ctx context.Context) error {
	p.background.Cancel() // first, so that readers know why their reads end
	return errors.Join(p.store.Client.EndBlocking(), p.background.Close(ctx))
}

// join waits until Redis confirms that the installation is the configured one and the live nodes
// fit, and then joins it. An error means that this process must not join.
func (p *process) join(ctx context.Context, failed chan<- error) error {
	if installed, err := p.awaitInstallation(ctx); !installed {
		return err
	}
	if entered, err := p.enter(ctx); !entered {
		return err
	}
	partitions := p.newPartitions()
	p.subscribePartitions(partitions)
	for what, f := range map[string]func(context.Context) error{
		"read events":    p.tail.Run,
		"read market":    p.market.Run,
		"feed market":    p.feed,
		"share outcomes": p.outcomes.Run,
		"watch weather":  p.weather.Run,
		"work on jobs":   p.agents.Work,
		"watch redis":    p.watchRedis,
		"show followed":  p.publishFollowed,
	} {
		p.start(ctx, failed, what, f)
	}
	if err := partitions.Join(ctx); err != nil {
		return err
	}
	p.start(ctx, failed, "stay in the installation", partitions.Stay)
	p.joined.Store(partitions)
	p.notifySystemd("STATUS=serves")
	p.log.Info("agentsignal serves", "version", Version, "node", p.node)
	if p.options.Demo != nil {
		return p.runDemo(ctx)
	}
	return nil
}

// newPartitions starts the actors of this node's partitions, which announce the node at once.
func (p *process) newPartitions() *partition.Partitions {
	// In the order in which they are started and given the events of a partition.
	tenants := []ownership.Tenant{p.deliverer, p.lifecycle, p.scheduler}
	if !p.options.Unrecorded {
		tenants = append(tenants, p.notary, p.audit)
	}
	return partition.New(p.system, p.node, partitionStore{p.store.Signals, p.store}, p.events, partition.Options{
		Lease:      time.Duration(p.config.Lease),
		SingleNode: !p.config.Cluster,
		Tail:       p.tail.For(eventlog.Owned),
		Tenants:    tenants,
		Webhooks:   p.webhooks,
		Compactor:  p.store.Signals,
		Trimmer: eventlog.NewTrimmer(p.store.Logs, eventlog.TrimOptions{
			Retention: time.Duration(p.config.Signals.Retention),
		}),
		Log: p.log,
	})
}

// handOverEarly hands this node's partitions over before the delay of the shutdown, in which
// requests are still served: these and streams do not depend on which node owns a partition. A
// single node keeps them, as no other would take them.
func (p *process) handOverEarly(ctx context.Context) error {
	joined := p.joined.Load()
	if joined == nil || !p.config.Cluster {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.options.shutdown)
	defer cancel()
	return joined.HandOver(ctx)
}

// leave ends the actors of this node's partitions, which it hands over first, before the rest ends.
func (p *process) leave(ctx context.Context) error {
	p.system.ShutdownFollows()
	if joined := p.joined.Load(); joined != nil {
		return joined.Leave(ctx)
	}
	return nil
}

// subscribe subscribes the parts to the tail, which notifies them one after the other in the
// order of these calls:
//
//  1. credentials, so that a revoked key, an ended session or a deleted account is refused,
//     and no later event reaches it;
//  2. the streams, for which clients wait;
//  3. the lists;
//  4. the partitions, which process the effects of events and append more, see
//     subscribePartitions.
//
// After a rollback of Redis, results computed from lost events are dropped before partitions
// change owner. A gap follows, in which each part reads missed events again.
func (p *process) subscribe() {
	p.tail.Subscribe(func(_ int, events []signal.Event) { p.credentials.Forget(events) })
	p.tail.Subscribe(p.hub.Publish)
	p.tail.Subscribe(p.catalogue.Publish)
	p.tail.OnRollback(func(int) {
		p.scorecards.ForgetAll()
		p.outcomes.ForgetAll()
	})
	p.tail.OnGap(func(n int) {
		p.credentials.ForgetAll()
		p.hub.Gap(n)
		p.catalogue.Gap(n)
	})
}

// followEnded ends the use of credentials that another node has ended, whatever partitions this node
// follows: first new requests, then connections.
func (p *process) followEnded(ctx context.Context) error {
	return p.store.Credentials.Follow(ctx, func(events []signal.Event) {
		p.credentials.Forget(events)
		p.hub.Revoke(events)
	}, p.credentials.ForgetAll)
}

// subscribePartitions is subscribe for the partitions, which exist only after the node has
// joined the installation. The tail does not run before that.
func (p *process) subscribePartitions(partitions *partition.Partitions) {
	p.tail.Subscribe(partitions.Publish)
	p.tail.OnRollback(partitions.RolledBack)
	p.tail.OnGap(partitions.Gap)
}

// publishAll waits until the streams have all events of answered requests. If that takes too
// long, clients read the rest from another node. Where no partition is followed, there is no stream.
func (p *process) publishAll(ctx context.Context) error {
	if !p.tail.Attached() {
		return nil
	}
	for n := range p.store.Client.Partitions() {
		if !p.tail.For(eventlog.Streams).Attached(n) {
			continue
		}
		head, err := p.tail.Head(ctx, n)
		if err == nil {
			err = p.tail.Wait(ctx, n, head)
		}
		if err != nil {
			p.log.Warn("streams end before all events were published", "err", err)
			return nil
		}
	}
	return nil
}

// within limits f to d.
func within(d time.Duration, f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return f(ctx)
	}
}
