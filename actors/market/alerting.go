package market

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/market/prices"
)

// Alerting adds alerts to assets on this node and removes them. It is safe for concurrent use, but Alert must not be
// called from an actor's Receive.
type Alerting struct {
	system *engine.System
	loader *loader
	recent *recentTicks
}

// setAlerts adds alerts to an asset. The reply confirms that its actor has them.
type setAlerts struct {
	alerts []alerts.Alert
	reply  chan<- struct{}
}

// dropAlerts removes the alerts of refs.
type dropAlerts struct{ refs []engine.Ref }

// askPrice asks for the last price on behalf of the Ref of an alert.
type askPrice struct{ ref engine.Ref }

// Alert adds alerts to the asset that name means, which first catch up on the prices since they
// began. It waits until the ticks in Redis have been read. Errors are those of Market.Series; after a
// retryable one the alerts may have been added.
func (a *Alerting) Alert(ctx context.Context, name string, alerts []alerts.Alert) error {
	select {
	case <-a.recent.read:
	case <-ctx.Done():
		return unreachable(ctx.Err())
	}
	w, err := a.loader.load(ctx, name, prices.M1)
	if err != nil {
		return err
	}
	_, err = engine.Ask(ctx, w.ref, func(reply chan<- struct{}) any { return setAlerts{alerts, reply} })
	if err != nil {
		return unreachable(err)
	}
	return nil
}

// Unalert removes the alerts of refs, a slice that must not be changed afterwards. It does not wait.
// When the system is about to shut down it does nothing: a million alerts end with their assets.
func (a *Alerting) Unalert(name string, refs ...engine.Ref) {
	if !a.system.Ending() {
		a.send(name, dropAlerts{refs})
	}
}

// RequestPrice requests alerts.LastPrice for the Ref of an alert. It comes after the notifications
// of everything that happened before, and not at all without the alert or a price. It does not wait.
func (a *Alerting) RequestPrice(name string, ref engine.Ref) { a.send(name, askPrice{ref}) }

// send sends a message to the actor of an asset, if it has one.
func (a *Alerting) send(name string, message any) {
	if w := a.loader.watches.get(a.loader.names.key(name)); w != nil {
		w.ref.Tell(message)
	}
}
