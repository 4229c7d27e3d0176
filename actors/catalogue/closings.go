package catalogue

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// closings has who waits for signals to close.
type closings struct {
	mu      sync.Mutex
	waiting map[signal.SignalID][]chan struct{}
}

// AwaitClosing returns once a signal of an account is closed, or with an error when ctx ends.
func (c *Catalogue) AwaitClosing(ctx context.Context, account signal.AccountID, id signal.SignalID) error {
	closed := c.closings.add(id)
	defer c.closings.remove(id, closed)
	if _, at, err := c.Find(ctx, account, nil, id); err != nil || !at.IsZero() {
		return err
	}
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *closings) add(id signal.SignalID) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[signal.SignalID][]chan struct{}{}
	}
	closed := make(chan struct{}, 1)
	w.waiting[id] = append(w.waiting[id], closed)
	return closed
}

func (w *closings) remove(id signal.SignalID, closed chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := slices.DeleteFunc(w.waiting[id], func(c chan struct{}) bool { return c == closed })
	if w.waiting[id] = rest; len(rest) == 0 {
		delete(w.waiting, id)
	}
}

// notify wakes those who wait for signals that events close.
func (w *closings) notify(events []signal.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range events {
		if len(w.waiting) == 0 {
			return
		}
		if e := &events[i]; e.Type == signal.SignalClosed && e.Listing != nil {
			for _, closed := range w.waiting[e.Listing.ID] {
				select {
				case closed <- struct{}{}:
				default: // it was notified by a repetition of the event
				}
			}
		}
	}
}

// NewestClosed returns where the signals with prices of a strategy are that were closed last, in the order of their closings:
// at most limit of those closed behind a position. It fails as List does.
func (c *Catalogue) NewestClosed(ctx context.Context, id signal.AccountID, agent signal.AgentID, strategy string,
	after signal.Position, limit int) ([]signal.Location, error) {
	a, err := c.account(ctx, id)
	if err != nil || a == nil {
		return nil, err
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	number, ok := a.pairs.numbers[names{agent, strategy}]
	if !ok {
		return nil, nil
	}
	return newestClosed(a, func(v *row) bool { return v.kind&^shortBit == number && !math.IsNaN(v.entry) }, after,
		signal.Position{MS: msMax}, c.oldest(), limit), nil
}

// Standing returns what is listed of an account as of a position, with at most so many signals that are closed and as many that
// are open. It fails as List does.
func (c *Catalogue) Standing(ctx context.Context, id signal.AccountID, upTo signal.Position, limit int) (Standing, error) {
	a, err := c.account(ctx, id)
	if err != nil || a == nil {
		return Standing{}, err
	}
	return standingOf(a, upTo, c.oldest(), limit), nil
}

// newestClosed returns where the signals are that selects selects of those closed behind one position and up to another, at
// most limit, in the order of their closings. The caller holds the lock.
func newestClosed(
	a *account, selects func(*row) bool, after, upTo signal.Position, notBefore int64, limit int,
) []signal.Location {
	var found []signal.Location
	cut := func() {
		slices.SortFunc(found, func(x, y signal.Location) int { return x.Closed.Compare(y.Closed) })
		if len(found) > limit {
			found = append(found[:0], found[len(found)-limit:]...)
			after = found[0].Closed
		}
	}
	least := packed(after)
	for n := a.rows.after(notBefore); n < a.rows.next; n++ {
		v := a.rows.at(n)
		if v.closed == 0 || v.closed < least || !selects(v) {
			continue
		}
		if at := a.rows.closed(n); at.Compare(after) > 0 && at.Compare(upTo) <= 0 {
			found = append(found, a.location(n))
		}
		if len(found) >= 2*limit {
			cut()
			least = packed(after)
		}
	}
	cut()
	return found
}
