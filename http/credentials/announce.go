package credentials

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// outbox holds the events of changes until they are appended to their event logs.
type outbox interface {
	// Notify makes all processes call Forget with events, on which nothing depends: a process
	// that it does not reach asks the store again within a second.
	Notify(ctx context.Context, events []signal.Event) error
	// Settle removes events that have been appended.
	Settle(ctx context.Context, events []signal.Event) error
	// Unsettled returns at most limit events that are older than a time.
	Unsettled(ctx context.Context, before time.Time, limit int) ([]signal.Event, error)
}

const (
	// announceTimeout limits how long a change waits for its announcement.
	announceTimeout = 5 * time.Second
	// sweepAge is the age at which any process announces an event. Appending an event twice
	// does no harm.
	sweepAge = announceTimeout + 5*time.Second
	// eventsAtOnce limits one append.
	eventsAtOnce = 100
)

// announcer announces the events of credential changes.
type announcer struct {
	outbox outbox
	events Log
	forget func([]signal.Event) // removes ended credentials from the caches of this process
	now    func() time.Time
	log    *slog.Logger
}

// announce makes this process forget the ended credentials, and all others by Notify and by
// appending the events to the log of the account, which also closes its connections. The change
// is stored together with its events: if they cannot be appended now, Run of any process does it
// later. So the change succeeds nevertheless.
func (a *announcer) announce(ctx context.Context, events []signal.Event) {
	if len(events) == 0 {
		return
	}
	a.forget(events)
	// The change is announced even if the client leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), announceTimeout)
	defer cancel()
	if err := a.outbox.Notify(ctx, events); err != nil {
		a.log.Debug("other processes were not notified of a credential change", "account", events[0].Account, "err", err)
	}
	if err := a.publish(ctx, events); err != nil {
		a.log.Warn("a credential change is announced later", "account", events[0].Account, "err", err)
	}
}

// publish appends the events of one account and settles them.
func (a *announcer) publish(ctx context.Context, events []signal.Event) error {
	for len(events) > 0 {
		n := min(len(events), eventsAtOnce)
		c := signal.Change{Account: events[0].Account, Events: make([]signal.Event, n)}
		for i, e := range events[:n] {
			// In the outbox the events of one change share an ID.
			e.ID = signal.NewEventID()
			c.Events[i] = e
		}
		if _, err := a.events.Append(ctx, c); err != nil {
			return fmt.Errorf("append events: %w", err)
		}
		if err := a.outbox.Settle(ctx, events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// sweep announces old events that the processes of their changes have not announced.
func (a *announcer) sweep(ctx context.Context) {
	events, err := a.outbox.Unsettled(ctx, a.now().Add(-sweepAge), eventsAtOnce)
	if err != nil {
		if ctx.Err() == nil {
			a.log.Warn("unannounced credential changes cannot be read", "err", err)
		}
		return
	}
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].Account == events[0].Account {
			n++
		}
		err := panics.ErrPanicked
		panics.Guard(a.log, panics.Credentials, func() { err = a.publish(ctx, events[:n]) })
		if err != nil {
			a.log.Warn("a credential change is announced later", "account", events[0].Account, "err", err)
		}
		events = events[n:]
	}
}
