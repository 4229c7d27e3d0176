package credentials

import (
	"context"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// outbox holds the events of changes until they are appended to their logs.
type outbox interface {
	// Settle removes events that were appended.
	Settle(ctx context.Context, events []signal.Event) error
	// Unsettled returns at most limit events that were put in before a time.
	Unsettled(ctx context.Context, before time.Time, limit int) ([]signal.Event, error)
}

const (
	// announceTimeout bounds how long a change waits for its announcement.
	announceTimeout = 5 * time.Second
	// sweepAge is the age at which an announcement is taken for forgotten by the
	// process that made it. An event that is appended twice does no harm.
	sweepAge = announceTimeout + 5*time.Second
	// eventsAtOnce bounds one append.
	eventsAtOnce = 100
)

// announce makes this process forget what events end, at once, and appends them,
// so that all others do. The change is stored and its events with it: if they
// cannot be appended now, Run of any process does it later. So the caller learns
// of the change, not of the delay.
func (s *Service) announce(ctx context.Context, events []signal.Event) {
	if len(events) == 0 {
		return
	}
	s.Forget(events)
	// The change stands, whether or not the client still waits.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), announceTimeout)
	defer cancel()
	if err := s.publish(ctx, events); err != nil {
		s.log.Warn("a credential change is announced later", "account", events[0].Account, "err", err)
	}
}

// publish appends events of one account and settles them.
func (s *Service) publish(ctx context.Context, events []signal.Event) error {
	for len(events) > 0 {
		n := min(len(events), eventsAtOnce)
		c := signal.Change{Account: events[0].Account, Events: make([]signal.Event, n)}
		for i, e := range events[:n] {
			// The events of one change wait under one id, and may be appended again.
			e.ID = signal.NewEventID()
			c.Events[i] = e
		}
		if _, err := s.events.Append(ctx, c); err != nil {
			return fmt.Errorf("append events: %w", err)
		}
		if err := s.store.Settle(ctx, events[:n]); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// sweep announces what was not announced by the process that changed it.
func (s *Service) sweep(ctx context.Context) {
	events, err := s.store.Unsettled(ctx, s.now().Add(-sweepAge), eventsAtOnce)
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("unannounced credential changes cannot be read", "err", err)
		}
		return
	}
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].Account == events[0].Account {
			n++
		}
		err := panics.ErrPanicked
		s.guard(func() { err = s.publish(ctx, events[:n]) })
		if err != nil {
			s.log.Warn("a credential change is announced later", "account", events[0].Account, "err", err)
		}
		events = events[n:]
	}
}
