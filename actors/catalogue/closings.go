package catalogue

import (
	"context"
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
	if _, at, err := c.Find(ctx, account, id); err != nil || !at.IsZero() {
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
