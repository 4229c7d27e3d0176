package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/audit"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/lifecycle"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/feeder"
	"github.com/agentsignal/agentsignal/actors/notary"
	"github.com/agentsignal/agentsignal/actors/outcomes"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/schedule"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/configs"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/audits"
	"github.com/agentsignal/agentsignal/persistence/datadir"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	marketstore "github.com/agentsignal/agentsignal/persistence/market"
	outcomestore "github.com/agentsignal/agentsignal/persistence/outcomes"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/schedules"
)

// newProcess builds the service. When it returns, the address is bound, but nothing is served
// yet. Each part depends only on parts built before it, and adds its end to undo. Without Redis
// run builds the parts, since the installation decides about the number of partitions.
func newProcess(ctx context.Context, c configs.Config, o Options) (_ *process, err error) {
	p := &process{
		config:   c,
		options:  o.withDefaults(),
		registry: prometheus.NewRegistry(),
	}
	p.holdings = &holdings{p: p}
	p.log = slog.New(newLogCounter(p.options.log.Handler(), p.registry))
	p.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(),
		p.readyGauge(),
		p.holdings,
	)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.undo.Run(context.WithoutCancel(ctx)))
		}
	}()
	for _, build := range []func(context.Context) error{p.buildNode, p.listen, p.buildStore} {
		if err := build(ctx); err != nil && !p.awaitsRedis(err) {
			return nil, err
		}
	}
	if p.store == nil {
		return p, p.buildWaiting()
	}
	return p, p.buildParts(ctx)
}

// awaitsRedis reports whether err means that Redis may answer later.
func (p *process) awaitsRedis(err error) bool { return signal.KindOf(err) == signal.KindUnavailable }

// buildParts builds the service on its store.
func (p *process) buildParts(ctx context.Context) error {
	for _, build := range []func(context.Context) error{
		p.buildAccess,
		p.buildMarket,
		p.buildAgents,
		p.buildWebhooks,
		p.buildSchedules,
		p.buildNotary,
		p.buildAudit,
		p.buildStreams,
		p.buildServer,
		p.listenAdmin,
	} {
		if err := build(ctx); err != nil {
			return err
		}
	}
	p.undo.Add("partitions", p.leave)
	return nil
}

// buildNode opens the data directory, and starts Redis if none is configured.
func (p *process) buildNode(ctx context.Context) error {
	c := p.config
	node, err := datadir.OpenNodeID(c.DataDir)
	if err != nil {
		return err
	}
	p.undo.Add("node", func(context.Context) error { return node.Close() })
	p.node, p.place = node.String(), node.Place()
	if p.signingKeys, err = p.keysOf("auth.jwt_keys", c.Auth.JWTKeys, jwtKeyFile); err != nil {
		return err
	}
	if c.Redis.URL == "" {
		p.embedded, err = datadir.StartEmbedded(ctx, datadir.EmbeddedOptions{
			Dir:       c.DataDir,
			MaxMemory: int64(c.Redis.MaxMemory),
			Log:       p.log,
		})
		if err != nil {
			return err
		}
		p.undo.Add("redis", p.embedded.Stop)
		if p.embedded.Durable() {
			p.log.Info("redis is started in the data directory", "dir", p.embedded.Dir(), "new", p.embedded.New())
		}
	}
	p.redisMetrics = redisclient.NewMetrics(p.registry)
	p.httpMetrics = signalhttp.NewMetrics(p.registry)
	p.certificate, err = loadCertificate(c.TLS, p.registry)
	return err
}

// buildStore opens the store by the names and the number of partitions of its installation.
// KindUnavailable: Redis does not answer.
func (p *process) buildStore(ctx context.Context) error {
	c := p.config
	o := StoreOptions(c, string(c.Redis.URL))
	o.Timeout, o.Node, o.Log, o.Metrics = time.Duration(c.Redis.Timeout), p.node, p.log, p.redisMetrics
	if p.embedded != nil {
		o.URL = p.embedded.URL()
	}
	o, err := redisclient.Installed(ctx, o)
	if err != nil {
		return err
	}
	store, err := persistence.Open(o)
	if err != nil {
		return err
	}
	if err := store.Client.LearnServers(ctx); err != nil {
		_ = store.Client.Close() // it will be opened again
		return err
	}
	p.store = store
	p.undo.Add("connection to redis", func(context.Context) error { return p.store.Client.Close() })
	p.events = eventlog.NewLog(p.store.Logs, eventlog.LogOptions{
		AppendTimeout: time.Duration(c.Redis.Timeout),
		Log:           p.log,
	})
	p.undo.Add("log", p.events.Close)
	p.tail = eventlog.NewTail(p.store.Logs, eventlog.TailOptions{Log: p.log})
	p.registry.MustRegister(p.tail.Collector())
	p.undo.Add("questions of the tail", p.tail.Close)
	return nil
}

// buildAccess builds accounts, keys and sessions, and the rate limits.
func (p *process) buildAccess(context.Context) error {
	c := p.config
	p.credentials = credentials.New(p.store.Credentials, p.events, p.signingKeys, credentials.Options{
		AccessTTL:   time.Duration(c.Auth.AccessTTL),
		RefreshTTL:  time.Duration(c.Auth.RefreshTTL),
		SessionTTL:  time.Duration(c.Auth.SessionTTL),
		MaxSessions: c.Auth.MaxSessions,
		HashQueue:   c.Auth.HashQueue,
		Lock: credential.LockRules{
			After:    c.Auth.LockAfter,
			Window:   time.Duration(c.Auth.LockWindow),
			Duration: time.Duration(c.Auth.LockDuration),
		},
		Now:     p.store.Client.Now,
		Log:     p.log,
		Metrics: credentials.NewMetrics(p.registry),
	})
	p.undo.Add("credentials", p.credentials.Close)
	quotas, err := quotasOf(c.RateLimit)
	if err != nil {
		return err
	}
	p.limiter = limits.New(p.store.Requests, limits.Options{
		Quotas: quotas,
		Log:    p.log,
	})
	p.undo.Add("limiter", p.limiter.Close)
	return nil
}

// buildMarket starts the actor system and builds the market, its feeder and the weather.
func (p *process) buildMarket(context.Context) error {
	c := p.config
	p.system = engine.NewSystem(engine.Options{
		Log:     p.log,
		Metrics: engine.NewMetrics(p.registry),
	})
	p.undo.Add("actors", p.system.Shutdown)
	prices := marketstore.New(p.store.Client)
	p.market = market.New(p.system, market.Options{
		Store:   prices,
		Sources: c.Market.Source,
		Speed:   c.Market.Speed,
		Now:     p.store.Client.Now,
		Log:     p.log,
	})
	var pull func(commodity string, at time.Time) float64
	if p.weather, p.climate = p.newWeather(prices); p.climate != nil {
		pull = p.climate.Anomaly
	}
	p.undo.Add("weather", p.weather.Close)
	var err error
	p.feeder, err = feeder.New(prices, feeder.Options{
		Node:    p.node,
		Sources: c.Market.Source,
		Speed:   c.Market.Speed,
		Seed:    c.Market.Seed,
		Weather: pull,
		Rounds:  func(ctx context.Context) (bool, error) { return readRounds(ctx, p.store.Logs) },
		Lease:   time.Duration(c.Lease),
		Real:    RealSources(c.Market),
		Now:     p.store.Client.Now,
		Log:     p.log,
		Metrics: feeder.NewMetrics(p.registry),
	})
	return err
}

// buildAgents builds the agents, and the lists and the lifecycle of their signals.
func (p *process) buildAgents(context.Context) error {
	c := p.config
	texts, err := contentWriter(c, p.log)
	if err != nil {
		return err
	}
	p.catalogue = catalogue.New(p.tail, p.store.Signals, p.store.Client.Partitions(), catalogue.Options{
		Name:      p.market.Name,
		Suggest:   p.market.Suggest,
		Retention: time.Duration(c.Signals.Retention),
		MaxOpen:   c.Signals.MaxOpen,
		Follow:    p.tail.For(eventlog.Lists).Use,
		Now:       p.store.Client.Now,
		Log:       p.log,
	})
	p.undo.Add("lists", p.catalogue.Close)
	p.outcomes = outcomes.New(outcomes.Options{
		Store: outcomestore.New(p.store.Client),
		Keep:  outcomestore.MaxStored,
		Now:   p.store.Client.Now,
		Log:   p.log,
	})
	p.agents = agent.New(p.system, agent.Options{
		Log:      p.events,
		Market:   p.market,
		History:  p.market,
		Outcomes: p.outcomes,
		Content:  texts,
		Weather:  p.weather,
		Jobs: jobs.New(p.store.Client, p.node, jobs.Options{
			Idle:      time.Duration(c.Runs.Timeout) + jobMargin,
			Reclaimed: p.store.CountReclaimed,
			Log:       p.log,
		}),
		Cost:          CostsOf(c.Costs).Of,
		Slippage:      c.Costs.Slippage,
		Disabled:      agentIDs(c.Agents.Disabled),
		Statuses:      agentStatuses(c.Agents.Statuses),
		Timeout:       time.Duration(c.Runs.Timeout),
		MaxConcurrent: c.Runs.MaxConcurrent,
		MaxQueued:     c.Runs.MaxQueued,
		MaxOpen:       c.Signals.MaxOpen,
		Open:          p.catalogue.Open,
		JobRetention:  time.Duration(c.Runs.JobRetention),
		Now:           p.store.Client.Now,
		Slog:          p.log,
		Metrics:       agent.NewMetrics(p.registry),
	})
	p.undo.Add("runs", within(runGrace, p.agents.Drain))
	// It ends after the requests and streams that it serves, and before the parts that it uses.
	p.undo.Add("background", p.stopBackground)
	p.lifecycle = lifecycle.New(p.store.Signals, p.events, p.market, lifecycle.Options{
		Now:       p.store.Client.Now,
		Log:       p.log,
		Metrics:   lifecycle.NewMetrics(p.registry),
		Forecasts: forecasts{p.weather},
	})
	return nil
}

// buildSchedules builds the schedules of runs and the statistics of signals.
func (p *process) buildSchedules(context.Context) error {
	c := p.config
	p.schedules = schedules.New(p.store.Client, p.events)
	p.scheduler = schedule.New(
		p.schedules,
		scheduledAgents{p.agents},
		openSignals{p.catalogue, p.store.Signals},
		schedule.Options{
			Speed:   p.speedOf,
			Quota:   runQuota{p.limiter},
			Now:     p.store.Client.Now,
			Log:     p.log,
			Metrics: schedule.NewMetrics(p.registry),
		},
	)
	p.scorecards = scorecard.New(p.store.Signals, scorecard.Options{
		Retention: time.Duration(c.Signals.Retention),
		Follow: func(ctx context.Context, account signal.AccountID) error {
			return p.tail.For(eventlog.Lists).Use(ctx, p.store.Client.Partition(account))
		},
		Now:  p.store.Client.Now,
		Name: p.market.Name,
		Cost: func(asset string) float64 { return CostsOf(c.Costs).Of(assets.ClassOf(asset)) },
	})
	return nil
}

// buildNotary builds what appends to the record of signals and signs it.
func (p *process) buildNotary(context.Context) error {
	var err error
	if p.recordKeys, err = p.readRecordKeys(); err != nil {
		return err
	}
	trusted, err := record.ParseWitnesses(p.config.Record.Witnesses)
	if err != nil {
		return fmt.Errorf("record.witnesses: %w", err)
	}
	p.witnesses = notary.NewWitnesses(p.store.Leaves, p.recordKeys, trusted)
	p.notary = notary.New(p.store.Leaves, p.recordKeys, notary.Options{
		Subscribers: p.webhooks,
		Events:      p.events,
		Now:         p.store.Client.Now,
		Log:         p.log,
		Metrics:     notary.NewMetrics(p.registry),
	})
	return nil
}

// AuditSources returns what an audit reads.
func AuditSources(store *persistence.Store, c configs.Costs) audit.Sources {
	return audit.Sources{
		Signals:  store.Signals,
		Prices:   marketstore.New(store.Client),
		Outcomes: outcomestore.New(store.Client),
		Records:  store.Leaves,
		Updates:  updates{store.Logs},
		Costs:    CostsOf(c),
		Slippage: c.Slippage,
	}
}

// buildAudit builds what audits signals by a schedule.
func (p *process) buildAudit(context.Context) error {
	c := p.config
	p.audit = audit.NewNode(AuditSources(p.store, c.Costs), audits.New(p.store.Client), audit.NodeOptions{
		Every:       time.Duration(c.Audit.Every),
		Retention:   time.Duration(c.Signals.Retention),
		Partitions:  p.store.Client.Partitions(),
		PartitionOf: p.store.Client.Partition,
		Now:         p.store.Client.Now,
		Log:         p.log,
		Metrics:     audit.NewMetrics(p.registry),
	})
	return nil
}

// buildStreams builds the hub of the WebSocket connections.
func (p *process) buildStreams(context.Context) error {
	c := p.config.Dashboard
	p.hub = dashboard.NewHub(p.system, dashboard.Options{
		PartitionOf:    p.store.Client.Partition,
		Authenticator:  p.credentials,
		Follower:       p.tail.For(eventlog.Streams),
		Log:            eventLog{p.store.Logs, p.tail},
		Name:           p.market.Name,
		SuggestAssets:  p.catalogue.SuggestAssets,
		Prices:         lastPrices{p.market}.read,
		Heartbeat:      time.Duration(c.Heartbeat),
		AuthTimeout:    time.Duration(c.AuthTimeout),
		QueueMessages:  c.QueueMessages,
		QueueBytes:     int(c.QueueBytes),
		MaxConnections: c.MaxConnections,
		ReplayMessages: c.ReplayMessages,
		ReplayAge:      time.Duration(c.ReplayAge),
		Now:            p.store.Client.Now,
		Logger:         p.log,
		Metrics:        dashboard.NewMetrics(p.registry),
	})
	p.undo.Add("late streams", p.hub.Close)
	p.undo.Add("streams", p.hub.Drain)
	p.undo.Add("events", within(streamGrace, p.publishAll))
	p.subscribe()
	return nil
}

// buildServer builds the HTTP server on all other parts.
func (p *process) buildServer(ctx context.Context) error {
	c := p.config
	o := signalhttp.Options{
		Agents:     p.agents,
		Work:       p.agents,
		Catalogue:  p.catalogue,
		Weather:    p.catalogue,
		Signals:    p.store.Signals,
		Replies:    p.store.Requests,
		Reads:      p.store,
		Scorecards: p.scorecards,
		Record:     p.store.Leaves,
		RecordKeys: p.recordKeys.Public(),
		Witnesses:  p.witnesses,
		Audits:     p.audit,
		Schedules:  p.schedules,
		Speed:      p.speedOf,
		Assets:     p.market,

		Webhooks:   p.webhooks,
		Deliveries: p.webhooks,
		Sealer:     p.secrets,
		Addresses:  p.guard,
		Envelope:   webhook.AppendBody,

		Hub:          p.hub,
		Credentials:  p.credentials,
		Limits:       p.limiter,
		Registration: c.Auth.Registration == "open",

		CORSOrigins: c.HTTP.CORSOrigins,

		MaxExports:        c.HTTP.MaxExports,
		MaxAccountExports: c.HTTP.MaxAccountExports,

		Health:  p.health(),
		Now:     p.store.Client.Now,
		Tracing: p.startTracing(ctx),
	}
	if c.Webhooks.Challenge {
		o.Challenges = p.deliverer
	}
	var err error
	if p.server, err = p.newServer(o); err != nil {
		return err
	}
	p.undo.Add("requests", within(requestGrace, p.server.Shutdown))
	if waiting := p.serving.Swap(p.server); waiting != nil {
		p.server.TakeOver(waiting)
	}
	return nil
}

// newServer returns a server with o and what each server of this process has.
func (p *process) newServer(o signalhttp.Options) (*signalhttp.Server, error) {
	c := p.config
	var err error
	if o.TrustedProxies, err = parsePrefixes("http.trusted_proxies", c.HTTP.TrustedProxies); err != nil {
		return nil, err
	}
	o.MaxAnonymous = c.HTTP.MaxAnonymous
	o.TLS = p.certificate.config()
	o.WriteTimeout = time.Duration(c.Runs.Timeout) + answerMargin
	if c.HTTP.AdminAddr == "" {
		o.Gatherer = p.registry
	}
	o.Log, o.Metrics = p.log, p.httpMetrics
	return signalhttp.New(o)
}
