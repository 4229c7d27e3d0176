package market

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/market/prices"
)

// setAlerts adds alerts to an asset. The reply says that its actor has them.
type setAlerts struct {
	alerts []alerts.Alert
	reply  chan<- struct{}
}

// dropAlerts takes the alerts of some back.
type dropAlerts struct{ refs []engine.Ref }

// askPrice asks for the newest price on behalf of who has an alert.
type askPrice struct{ ref engine.Ref }

// Alert adds alerts to the asset that name means. What happened since they began is
// told first. It waits until the ticks that Redis holds have been read. Errors are
// those of Series; after one that is retryable they may have been added.
func (m *Market) Alert(ctx context.Context, name string, alerts []alerts.Alert) error {
	select {
	case <-m.tapes.read:
	case <-ctx.Done():
		return m.unreachable(ctx.Err())
	}
	w, err := m.load(ctx, name, prices.M1)
	if err != nil {
		return err
	}
	if _, err := engine.Ask(ctx, w.ref, func(reply chan<- struct{}) any { return setAlerts{alerts, reply} }); err != nil {
		return m.unreachable(err)
	}
	return nil
}

// Unalert removes the alerts of refs, a slice which must not be changed afterwards. It does
// not wait.
func (m *Market) Unalert(name string, refs ...engine.Ref) { m.tell(name, dropAlerts{refs}) }

// SendLastPrice sends the last price to the Ref of an alert, as alerts.LastPrice, after all
// that has happened before. Without such an alert or a price it sends nothing. It does not
// wait.
func (m *Market) SendLastPrice(name string, ref engine.Ref) { m.tell(name, askPrice{ref}) }

// tell sends a message to the actor of an asset, if there is one.
func (m *Market) tell(name string, message any) {
	if w := (*m.watches.Load())[m.key(name)]; w != nil {
		w.ref.Tell(message)
	}
}
