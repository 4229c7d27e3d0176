package eventlog

import (
	"log/slog"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// subscribers are the functions that a tail calls, in the order of their registration.
type subscribers struct {
	log       *slog.Logger
	events    []func(partition int, events []signal.Event)
	gaps      []func(partition int)
	rollbacks []func(partition int)
}

// deliver calls the subscribers and reports whether all of them returned.
func (s *subscribers) deliver(p int, events []signal.Event) (ok bool) {
	ok = true
	where := func() []any {
		first, last := events[0].Position, events[len(events)-1].Position
		return []any{"partition", p, "from", first.String(), "to", last.String()}
	}
	for _, f := range s.events {
		ok = panics.GuardAt(s.log, panics.Tail, func() { f(p, events) }, where) && ok
	}
	return ok
}

// notify calls the functions of OnGap or OnRollback.
func (s *subscribers) notify(p int, functions []func(partition int)) {
	for _, f := range functions {
		panics.Guard(s.log, panics.Tail, func() { f(p) }, "partition", p)
	}
}
