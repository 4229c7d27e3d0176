package catalogue

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// loader makes the lists of accounts from signal logs and events.
type loader struct {
	records Records
	name    func(asset string) string
	log     *slog.Logger
}

// scan returns the accounts of a partition as its signal log records them.
func (l *loader) scan(ctx context.Context, p int) (map[signal.AccountID]*account, error) {
	accounts := map[signal.AccountID]*account{}
	var e signal.LogEntry
	take := func() {
		a := accounts[e.Account]
		if a == nil {
			a = newAccount(l.name)
			accounts[e.Account] = a
		}
		switch {
		case e.Created != nil:
			l.report(a.create(e.Position, e.ULID, e.Created, e.Weather))
		case e.Closed:
			a.change(e.ULID, e.Origin, e.Confidence, e.Position)
		default:
			a.change(e.ULID, e.Origin, e.Confidence, signal.Position{})
		}
	}
	at := func() []any { return []any{"partition", p, "signal", string(signal.SignalIDFromBytes(e.ULID))} }
	err := l.records.ScanSignals(ctx, p, func(next signal.LogEntry) error {
		e = next
		panics.GuardAt(l.log, panics.Catalogue, take, at)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, a := range accounts {
		a.ensureIndex()
	}
	return accounts, nil
}

// concerns reports whether events of type t change a list.
func concerns(t signal.EventType) bool {
	return t == signal.SignalCreated || t == signal.SignalUpdated || t == signal.SignalClosed ||
		t == signal.AccountDeleted
}

// apply applies events to a ready partition, whose lock is held. The lock of an account
// is taken once for consecutive events of it: under load, readers would otherwise delay
// the tail at each event.
func (l *loader) apply(part *partition, events []signal.Event) {
	for len(events) > 0 {
		id, n := events[0].Account, 1
		for n < len(events) && events[n].Account == id {
			n++
		}
		run := events[:n]
		events = events[n:]
		if !slices.ContainsFunc(run, func(e signal.Event) bool { return concerns(e.Type) }) {
			continue
		}
		a := part.accounts[id]
		if a == nil {
			a = newAccount(l.name)
			part.accounts[id] = a
		}
		if l.applyTo(a, run) {
			delete(part.accounts, id)
		}
	}
}

// applyTo applies the events of an account. It reports whether the account was deleted.
func (l *loader) applyTo(a *account, events []signal.Event) (deleted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range events {
		e := &events[i]
		switch {
		case e.Type == signal.AccountDeleted:
			deleted = true
			continue
		case !concerns(e.Type):
			continue
		}
		id, ok := signal.ULIDBytes(string(e.Listing.ID))
		if !ok {
			l.report(fmt.Errorf("list signal %q: the identifier is not valid", e.Listing.ID))
			continue
		}
		switch e.Type {
		case signal.SignalCreated:
			l.report(a.create(e.Position, id, e.Listing, e.Weather))
			a.ensureIndex()
		case signal.SignalUpdated:
			a.change(id, signal.Position{}, e.Listing.Confidence, signal.Position{})
		case signal.SignalClosed:
			a.change(id, signal.Position{}, e.Listing.Confidence, e.Position)
		}
	}
	return deleted
}

// report logs a signal that cannot be listed.
func (l *loader) report(err error) {
	if err != nil {
		l.log.Error("signal is not listed", "err", err)
	}
}
