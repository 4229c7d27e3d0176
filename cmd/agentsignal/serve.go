package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/lifecycle"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/schedule"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/actors/webhook"
	"github.com/agentsignal/agentsignal/configs"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/persistence"
)

func serveCommand(s *settings, reload <-chan os.Signal) *cobra.Command {
	var demo bool
	c := &cobra.Command{
		Use: "serve", Short: "Run the service", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.load()
			if err != nil {
				return err
			}
			if demo && len(c.Webhooks.AllowedNetworks) == 0 {
				c.Webhooks.AllowedNetworks = demoNetworks
			}
			level := new(slog.LevelVar)
			log := newLogger(cmd.ErrOrStderr(), c.Log, level)
			for _, path := range configs.ReadableSecrets(os.Environ(), c.TLS.KeyFile) {
				log.Warn("a file with a secret may be read by everybody on this machine", "file", path)
			}
			p, err := newProcess(cmd.Context(), c, log)
			if err != nil {
				return err
			}
			p.level, p.settings, p.reload = level, s, reload
			if demo {
				p.demo = cmd.OutOrStdout()
			}
			return p.run(cmd.Context())
		},
	}
	c.Flags().BoolVar(&demo, "demo", false, "make a demo account with a key, print them, and have agents run for it")
	return c
}

// newProcess builds the service: everything is in place when it returns and the
// listeners are bound, but nothing is served yet. The order is that of dependency,
// and what is built says how it is undone. It is long because it is the one place
// that knows all parts.
func newProcess(ctx context.Context, c configs.Config, log *slog.Logger) (_ *process, err error) {
	p := &process{config: c, shutdown: shutdownTimeout}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.undo.Run(context.WithoutCancel(ctx)))
		}
	}()
	p.registry = prometheus.NewRegistry()
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(), p.readyGauge())
	log = slog.New(newPanicCounter(log.Handler(), p.registry))
	p.log = log

	node, err := persistence.OpenNodeID(c.DataDir)
	if err != nil {
		return nil, err
	}
	p.undo.Add("node", func(context.Context) error { return node.Close() })
	p.node = node.String()
	keys, err := signingKeys(c)
	if err != nil {
		return nil, err
	}
	address := string(c.Redis.URL)
	if address == "" {
		if p.embedded, err = persistence.StartEmbedded(ctx, persistence.EmbeddedOptions{Dir: c.DataDir, MaxMemory: int64(c.Redis.MaxMemory), Log: log}); err != nil {
			return nil, err
		}
		p.undo.Add("redis", p.embedded.Stop)
		address = p.embedded.URL()
	}
	p.store, err = persistence.Open(persistence.Options{URL: address, CAFile: c.Redis.CAFile, Partitions: c.Partitions, WaitReplicas: c.Redis.WaitReplicas, Timeout: time.Duration(c.Redis.Timeout),
		Log: log, Metrics: persistence.NewMetrics(p.registry)})
	if err != nil {
		return nil, err
	}
	p.undo.Add("connection to redis", func(context.Context) error { return p.store.Close() })
	p.events = persistence.NewLog(p.store, persistence.LogOptions{AppendTimeout: time.Duration(c.Redis.Timeout), Log: log})
	p.undo.Add("log", p.events.Close)
	p.tail = persistence.NewTail(p.store, persistence.TailOptions{Log: log})

	p.credentials = credentials.New(p.store, p.events, keys, credentials.Options{
		AccessTTL: time.Duration(c.Auth.AccessTTL), RefreshTTL: time.Duration(c.Auth.RefreshTTL), SessionTTL: time.Duration(c.Auth.SessionTTL),
		MostSessions: c.Auth.MaxSessions, HashQueue: c.Auth.HashQueue,
		Lock: credential.LockRules{After: c.Auth.LockAfter, Window: time.Duration(c.Auth.LockWindow), Duration: time.Duration(c.Auth.LockDuration)},
		Now:  p.store.Now, Log: log, Metrics: credentials.NewMetrics(p.registry)})
	quotas, err := quotasOf(c.RateLimit)
	if err != nil {
		return nil, err
	}
	p.limiter = limits.New(p.store, limits.Options{Quotas: quotas, Log: log})

	p.system = engine.NewSystem(engine.Options{Log: log, Metrics: engine.NewMetrics(p.registry)})
	p.undo.Add("actors", p.system.Shutdown)
	prices := persistence.NewMarket(p.store)
	p.market = market.New(p.system, market.Options{Store: prices, Sources: c.Market.Source, Speed: c.Market.Speed, Now: p.store.Now, Log: log})
	var pull func(commodity string, at time.Time) float64
	if p.weather, p.climate = newWeather(c, p.store, log, weather.NewMetrics(p.registry)); p.climate != nil {
		pull = p.climate.Anomaly
	}
	p.feeder, err = market.NewFeeder(prices, market.FeederOptions{Node: p.node, Sources: c.Market.Source, Speed: c.Market.Speed,
		Seed: c.Market.Seed, Weather: pull, Lease: time.Duration(c.Lease), Real: realSources(c.Market), Now: p.store.Now, Log: log, Metrics: market.NewMetrics(p.registry)})
	if err != nil {
		return nil, err
	}

	jobs := persistence.NewJobs(p.store, p.node, persistence.JobsOptions{Idle: time.Duration(c.Runs.Timeout) + jobMargin, Log: log})
	texts, err := contentWriter(c, log)
	if err != nil {
		return nil, err
	}
	p.catalogue = catalogue.New(p.tail, signalRecords{p.store}, p.store.Partitions(), catalogue.Options{
		Name: p.market.Name, Retention: time.Duration(c.Signals.Retention), MaxOpen: c.Signals.MaxOpen, Now: p.store.Now, Log: log})
	p.agents = agent.New(p.system, agent.Options{Log: p.events, Market: p.market, Name: p.market.Name, Jobs: jobs, Content: texts, Weather: p.weather,
		Past: p.market, Cost: costsOf(c.Costs).Of,
		Disabled: agentIDs(c.Agents.Disabled), Statuses: agentStatuses(c.Agents.Statuses), Timeout: time.Duration(c.Runs.Timeout),
		MaxConcurrent: c.Runs.MaxConcurrent, MaxQueued: c.Runs.MaxQueued, MaxOpen: c.Signals.MaxOpen, Open: p.catalogue.Open, JobRetention: time.Duration(c.Runs.JobRetention),
		Now: p.store.Now, Slog: log, Metrics: agent.NewMetrics(p.registry)})
	p.undo.Add("runs", within(runGrace, p.agents.Drain))
	p.undo.Add("background", p.stopBackground)
	p.lifecycle = lifecycle.New(p.store, p.events, p.market, lifecycle.Options{Now: p.store.Now, Log: log,
		Metrics: lifecycle.NewMetrics(p.registry), Forecasts: forecasts{p.weather}})
	p.weather.OnForecast(func(q weather.Question) { p.lifecycle.ForecastArrived(q.Strategy, q.Commodity, q.Region) })
	if err := p.addWebhooks(); err != nil {
		return nil, err
	}

	p.schedules = persistence.NewSchedules(p.store, p.events)
	p.scheduler = schedule.New(p.schedules, scheduledAgents{p.agents}, openSignals{p.catalogue, p.store}, schedule.Options{
		Speed: p.speedOf, Quota: runQuota{p.limiter}, Now: p.store.Now, Log: log, Metrics: schedule.NewMetrics(p.registry)})
	p.scorecards = scorecard.New(p.store, scorecard.Options{Retention: time.Duration(c.Signals.Retention), Now: p.store.Now,
		Name: p.market.Name, Cost: func(asset string) float64 { return costsOf(c.Costs).Of(market.ClassOf(asset)) }})
	p.hub = dashboard.NewHub(p.system, dashboard.Options{PartitionOf: p.store.Partition, Authenticator: p.credentials,
		Log: eventLog{p.store, p.tail}, Metrics: dashboard.NewMetrics(p.registry), Logger: log, Now: p.store.Now,
		Name: p.market.Name, Heartbeat: time.Duration(c.Dashboard.Heartbeat), AuthTimeout: time.Duration(c.Dashboard.AuthTimeout),
		QueueMessages: c.Dashboard.QueueMessages, QueueBytes: int(c.Dashboard.QueueBytes), MaxConnections: c.Dashboard.MaxConnections,
		ReplayMessages: c.Dashboard.ReplayMessages, ReplayAge: time.Duration(c.Dashboard.ReplayAge)})
	p.undo.Add("streams", p.hub.Drain)
	p.undo.Add("events", within(tellGrace, p.tellAll))
	p.subscribe()

	if p.certificate, err = loadCertificate(c.TLS, p.registry); err != nil {
		return nil, err
	}
	proxies, err := parsePrefixes("http.trusted_proxies", c.HTTP.TrustedProxies)
	if err != nil {
		return nil, err
	}
	o := signalhttp.Options{Agents: p.agents, Catalogue: p.catalogue, Weather: p.catalogue, Signals: p.store, Credentials: p.credentials, Limits: p.limiter,
		Replies: p.store, Hub: p.hub, Work: p.agents, Scorecards: p.scorecards, Schedules: p.schedules, Speed: p.speedOf, Assets: p.market, Webhooks: p.webhooks, Deliveries: p.webhooks, Sealer: p.secrets, Addresses: p.guard,
		Envelope: webhook.AppendBody, Registration: c.Auth.Registration == "open", CORSOrigins: c.HTTP.CORSOrigins,
		TrustedProxies: proxies, MaxAnonymous: c.HTTP.MaxAnonymous, TLS: p.certificate.config(), Health: p.health(), Metrics: signalhttp.NewMetrics(p.registry), Log: log,
		WriteTimeout: time.Duration(c.Runs.Timeout) + answerMargin, Now: p.store.Now, Tracing: p.startTracing(ctx)}
	if c.Webhooks.Challenge {
		o.Challenges = p.deliverer
	}
	if c.HTTP.AdminAddr == "" {
		o.Gatherer = p.registry
	}
	if p.server, err = signalhttp.New(o); err != nil {
		return nil, err
	}
	if err := p.listen(ctx); err != nil {
		return nil, err
	}
	p.undo.Add("partitions", p.handOver)
	return p, nil
}
