package market

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Alert asks to be told of an asset's prices, until one of the levels is reached or
// the alert expires. Times are milliseconds since 1970.
type Alert struct {
	Ref          engine.Ref // who is told; it has one alert for an asset
	Lower, Upper float64    // a price at or below the one, or at or above the other, ends it
	Since        int64      // only prices stamped after it count; a bar must open at it or later
	Expires      int64      // when it ends by itself
	Frame        signal.Timeframe
}

// Span is the lowest and the highest price since an alert began, as far as it is
// known. Both are 0 if there was none.
type Span struct{ Low, High float64 }

// What the Ref of an alert is told. After Reached and Expired the alert is gone.
type (
	// Reached says that a price has reached a level: a tick, or, if Bar is not nil, a
	// bar.
	Reached struct {
		Tick Tick
		Bar  *marketdata.Bar
		// Past says that it was found in bars of a time that nobody watched.
		Past bool
		Span Span
	}
	// Expired says that the time of the alert is over.
	Expired struct {
		At    int64   // when that was
		Price float64 // the last one before; 0 if there was none since the alert began
		// Stale says that Price was too old, and that no other came for three
		// timeframes.
		Stale bool
		Past  bool
		Span  Span
	}
	// Closed says that a bar of the alert's timeframe has closed.
	Closed struct {
		At    int64
		Price float64 // the newest one
		Span  Span
		Frame int64 // how long such a bar lasts by the clock, which prices may outrun
	}
	// Quoted answers Quote.
	Quoted struct {
		Price float64 // the newest one
		Span  Span
		Frame int64 // as in Closed
	}
	// Dropped says that the asset's actor has failed and knows nothing of the alert
	// any more: it must be made again.
	Dropped struct{}
)

// setAlerts adds alerts to an asset. The reply says that its actor has them.
type setAlerts struct {
	alerts []Alert
	reply  chan<- struct{}
}

// dropAlerts takes the alerts of some back.
type dropAlerts struct{ refs []engine.Ref }

// askPrice asks for the newest price on behalf of who has an alert.
type askPrice struct{ ref engine.Ref }

// Alert adds alerts to the asset that name means. What happened since they began is
// told first. It waits until the ticks that Redis holds have been read. Errors are
// those of Series; after one that is retryable they may have been added.
func (m *Market) Alert(ctx context.Context, name string, alerts []Alert) error {
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

// Unalert takes the alerts of refs back, which must not be changed afterwards. It does
// not wait.
func (m *Market) Unalert(name string, refs ...engine.Ref) { m.tell(name, dropAlerts{refs}) }

// Quote has the Ref of an alert told the newest price, behind all that has happened
// before. Who has no alert any more, or asks while no price is known, is told nothing. It
// does not wait.
func (m *Market) Quote(name string, ref engine.Ref) { m.tell(name, askPrice{ref}) }

// tell tells the actor of an asset something, if somebody has asked for the asset.
func (m *Market) tell(name string, message any) {
	if w := (*m.watches.Load())[m.key(name)]; w != nil {
		w.ref.Tell(message)
	}
}
