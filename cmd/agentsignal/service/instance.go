package service

import (
	"context"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/partition"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/configs"
	signalhttp "github.com/agentsignal/agentsignal/http"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// Instance is a service in the process of its caller, which reaches its parts: the tests of the whole service.
type Instance struct{ process *process }

// New builds a service. When it returns, the address is bound, but nothing is served yet.
func New(ctx context.Context, c configs.Config, o Options) (*Instance, error) {
	p, err := newProcess(ctx, c, o)
	if err != nil {
		return nil, err
	}
	return &Instance{p}, nil
}

// Run serves until ctx ends and then shuts down. It returns nil if nothing has failed.
func (i *Instance) Run(ctx context.Context) error { return i.process.run(ctx) }

// Ready reports whether the service is ready, as /readyz does.
func (i *Instance) Ready(ctx context.Context) bool {
	return i.process.serving.Load().Ready(ctx).Status == "ready"
}

// Addr returns the address at which it listens.
func (i *Instance) Addr() net.Addr { return i.process.node.listener.Addr() }

// AdminAddr returns the address for operators, of http.admin_addr.
func (i *Instance) AdminAddr() net.Addr { return i.process.admin.listener.Addr() }

// NodeID returns the ID of the node.
func (i *Instance) NodeID() string { return i.process.node.id }

// Config returns the configuration.
func (i *Instance) Config() configs.Config { return i.process.config }

// Metrics returns the registry of the metrics.
func (i *Instance) Metrics() *prometheus.Registry { return i.process.registry }

// RecordKeys returns the keys that sign the record.
func (i *Instance) RecordKeys() *record.Keys { return i.process.node.keys.record }

// RedisURL returns the address of the Redis that the service has started.
func (i *Instance) RedisURL() string { return i.process.node.embedded.URL() }

// ReloadCertificate reads the certificate again.
func (i *Instance) ReloadCertificate() error {
	return i.process.node.certificate.load(i.process.config.TLS)
}

// Built reports whether there are parts, which are built when Redis has answered. What follows needs them.
func (i *Instance) Built() bool { return i.process.parts != nil }

// Partitions returns what the node owns, or nil before it has joined the installation.
func (i *Instance) Partitions() *partition.Partitions { return i.process.membership.joined.Load() }

// Server returns the server of the API.
func (i *Instance) Server() *signalhttp.Server { return i.process.server }

// Store returns the records.
func (i *Instance) Store() *persistence.Store { return i.process.store }

// Events returns the writer of the event log.
func (i *Instance) Events() *eventlog.Log { return i.process.events }

// Tail returns the reader of the event log.
func (i *Instance) Tail() *eventlog.Tail { return i.process.tail }

// Webhooks returns the store of webhooks.
func (i *Instance) Webhooks() *deliveries.Settings { return i.process.webhooks.Settings }

// Credentials returns the service of accounts and keys.
func (i *Instance) Credentials() *credentials.Service { return i.process.credentials }

// Market returns the prices.
func (i *Instance) Market() *market.Market { return i.process.market }

// Catalogue returns the lists of signals.
func (i *Instance) Catalogue() *catalogue.Catalogue { return i.process.catalogue }

// Actors returns the actor system.
func (i *Instance) Actors() *engine.System { return i.process.system }

// LookForRisks looks for what puts the data at risk, as the service does from time to time. It logs what differs from
// what is logged, and returns what is logged now.
func (i *Instance) LookForRisks(ctx context.Context, logged []string) []string {
	return i.process.risks.look(ctx, logged)
}
