package service

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/checkpoints"
	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/lifecycle"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/weather"
	"github.com/agentsignal/agentsignal/actors/webhook/keyring"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/http/recordpage"
	marketstore "github.com/agentsignal/agentsignal/persistence/market"
)

// environment is what every part is built with.
type environment struct {
	config   configs.Config
	options  Options
	log      *slog.Logger
	registry *prometheus.Registry
	stops    *command.Stops // each part adds its end
}

// parts are what the service consists of on its store, in the order in which they are built.
type parts struct {
	*storage
	*access
	system  *engine.System
	weather *weather.Service
	*prices
	*webhookDelivery
	*asking
	*runs
	*planning
	*proof
	scorecards *scorecard.Scorecards
	records    *recordpage.Cache
	hub        *dashboard.Hub
	membership *membership
	risks      *risks
	readiness  *readiness
}

// build builds the parts on the store. Each gets those that it uses, which therefore are built before it, and adds its
// end to the stops.
func build(e environment, n *node, s *storage, b *background) (*parts, error) {
	access, err := newAccess(e, s, n.keys.signing)
	if err != nil {
		return nil, err
	}
	system := engine.NewSystem(engine.Options{Log: e.log, Metrics: engine.NewMetrics(e.registry)})
	e.stops.Add("actors", system.Shutdown)
	var open *lifecycle.Node // the weather, which is built first, notifies it once all is built
	stored := marketstore.New(s.store.Client)
	forecaster, simulatedWeather := newWeather(e, s, stored, func(q weather.Question) {
		open.ForecastArrived(q.Strategy, q.Commodity, q.Region)
	})
	prices, err := newPrices(e, s, n.id, system, stored, simulatedWeather)
	if err != nil {
		return nil, err
	}
	secrets, err := keyring.New(n.keys.encryption)
	if err != nil {
		return nil, err
	}
	delivery, err := newWebhookDelivery(e, s, secrets, prices.market.Assets.Name)
	if err != nil {
		return nil, err
	}
	own := newAsking(e, s, system, secrets, delivery.deliverer)
	runs, err := newRuns(e, s, n.id, system, prices.market, forecaster, own)
	if err != nil {
		return nil, err
	}
	open = runs.lifecycle
	// It ends after the requests and streams that it serves, and before the parts that it uses.
	e.stops.Add("background", func(ctx context.Context) error { return b.stop(ctx, s.store.Client.EndBlocking) })
	planning := newPlanning(e, s, runs, access.limiter, prices.speedOf)
	scorecards := newScorecards(e, s, prices.market)
	var keeper checkpoints.Keeper
	if n.embedded == nil || n.embedded.Durable() {
		keeper = NewKeptCheckpoint(e.config)
	}
	proof, err := newProof(e, s, n.keys.record, keeper, delivery.webhooks.Settings)
	if err != nil {
		return nil, err
	}
	records := newPublicRecords(e, n, s, runs, proof, own, scorecards)
	membership := newMembership(e, n, s, delivery.webhooks.Settings)
	hub := newHub(e, s, system, access.credentials.Authenticator, prices, runs.catalogue, own.ownAgents, membership.readers)
	subscribe(s.tail, access.credentials.Authenticator, hub, runs, scorecards, own.ownAgents)
	risks := &risks{store: s.store, log: e.log}
	readiness := &readiness{s, system, membership, risks, fixedWarnings(e, n)}
	return &parts{s, access, system, forecaster, prices, delivery, own, runs, planning, proof, scorecards, records, hub,
		membership,
		risks, readiness}, nil
}
