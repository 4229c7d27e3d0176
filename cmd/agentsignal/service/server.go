package service

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/webhook"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/tracing"
)

const (
	requestGrace = 5 * time.Second  // for requests, of shutdownTimeout
	answerMargin = 30 * time.Second // for the answer of a synchronous run after its timeout
)

// newService returns the HTTP server of all parts.
func newService(e environment, n *node, p *parts, spans *tracing.Exporter) (*signalhttp.Server, error) {
	origins, err := signalhttp.NewOrigins(e.config.HTTP.CORSOrigins)
	if err != nil {
		return nil, err
	}
	server, err := newServer(e, n, signalhttp.Options{
		Authenticator: p.credentials.Authenticator,
		Limits:        p.limiter,
		Reads:         p.store,
		Origins:       origins,
		Health:        p.readiness.checks(),
		Now:           p.store.Client.Now,
		Tracing:       spans,
	}, resources(e, n, p, origins)...)
	if err != nil {
		return nil, err
	}
	e.stops.Add("requests", within(requestGrace, server.Shutdown))
	return server, nil
}

// resources returns the resources of the API. The busiest come first.
func resources(e environment, n *node, p *parts, origins *signalhttp.Origins) []signalhttp.Resource {
	c, now := e.config, p.store.Client.Now
	agents := signalhttp.NewAgentCatalogue(p.agents, p.ownAgents)
	specs := signalhttp.NewRunSpecs(agents, p.market.Assets)
	once := signalhttp.NewIdempotency(p.store.Requests, p.secrets, e.log)
	webhooks := signalhttp.WebhookOptions{
		Webhooks:  p.webhooks.Settings,
		Addresses: p.guard,
		Assets:    p.catalogue,
		Sealer:    p.secrets,
		Once:      once,
		Agents:    agents,
		Log:       e.log,
		Now:       now,
	}
	if c.Webhooks.Challenge {
		webhooks.Challenges = p.deliverer
	}
	submissions := signalhttp.NewSubmissionHandlers(p.agents, agents, specs, once, time.Duration(c.Signals.Retention))
	signals := signalhttp.NewSignalHandlers(p.catalogue, p.store.Signals, p.events,
		signalhttp.NewExports(c.HTTP.MaxExports, c.HTTP.MaxAccountExports, 0), agents)
	alerts := signalhttp.NewAlertHandlers(signalhttp.AlertOptions{Intakes: p.ownAgents, Submissions: submissions,
		Signals: signals, Events: p.events, Now: now, Log: e.log, Wait: e.options.AlertWait})
	p.agents.OnAlert(alerts.CarryOut)
	return []signalhttp.Resource{
		signalhttp.NewRunHandlers(p.agents, specs, once),
		submissions,
		alerts,
		signalhttp.NewWeatherHandlers(p.catalogue),
		signals,
		signalhttp.NewJobHandlers(p.agents),
		signalhttp.NewAgentHandlers(agents, signalhttp.NewOwnAgentHandlers(p.ownAgents, p.asked, p.guard, now)),
		signalhttp.NewIntakeHandlers(p.ownAgents, p.ownAgents, now),
		signalhttp.NewAssetHandlers(p.market.Assets),
		signalhttp.NewWorkHandlers(p.agents, specs),
		signalhttp.NewScorecardHandlers(p.scorecards, p.catalogue, agents, now),
		signalhttp.NewAuditHandlers(p.audit),
		signalhttp.NewRecordHandlers(p.store.Leaves, p.witnesses, p.catalogue, n.keys.record.Public()),
		signalhttp.NewScheduleHandlers(p.schedules, specs, p.speedOf, now),
		signalhttp.NewWebhookHandlers(webhooks),
		signalhttp.NewDeliveryHandlers(deliveryStore{p.webhooks.History, p.webhooks.Changes}, p.webhooks.Settings,
			webhook.AppendBody, once, now),
		signalhttp.NewMCPHandlers(origins),
		signalhttp.NewStreamHandlers(p.hub, p.credentials.Authenticator, origins, n.connections),
		signalhttp.NewAccessHandlers(p.credentials.Accounts, p.credentials.Sessions, c.Auth.Registration == "open"),
		signalhttp.NewKeyHandlers(p.credentials.Keys, signalhttp.NewReaderHandlers(signalhttp.ReaderOptions{
			Readers: p.credentials.Readers, Connections: p.hub, Agents: agents, Assets: p.market.Assets,
			Suggester: p.catalogue, Now: now}), now),
		signalhttp.NewPublicationHandlers(p.credentials.Publications),
		signalhttp.NewPublicRecordHandlers(p.credentials.Authenticator, p.records, c.HTTP.Robots),
	}
}

// newServer returns a server with o, the resources and what each server of this process has.
func newServer(e environment, n *node, o signalhttp.Options, resources ...signalhttp.Resource) (*signalhttp.Server, error) {
	o.Connections, o.Log, o.Metrics = n.connections, e.log, n.httpMetrics
	o.TLS = n.certificate.config()
	o.WriteTimeout = time.Duration(e.config.Runs.Timeout) + answerMargin
	if e.config.HTTP.AdminAddr == "" {
		resources = append(resources, signalhttp.NewMetricsHandlers(e.registry))
	}
	return signalhttp.New(o, append(resources, signalhttp.NewPageHandlers(), signalhttp.ConsoleHandlers{})...)
}
