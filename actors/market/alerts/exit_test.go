package alerts

import (
	"testing"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// exit gives the only alert an exit, as its agent does when the set has seen the steps before.
func exit(at int64) func(*Set) {
	return func(s *Set) {
		ref := s.Refs()[0]
		p := Entry{Ref: ref, Exit: at}
		if i, ok := s.index.of[ref]; ok {
			p = s.index.entries[i]
			p.Exit = at
		}
		if !s.Exit(&p) {
			s.index.add(p)
		}
	}
}

// opening is a bar that opens at a price.
func opening(opens int64, open, high, low, closing float64) func(*Set) {
	return func(s *Set) {
		b := barOf(opens, high, low, closing)
		b.Open = open
		s.Bar(prices.M1, b)
	}
}

func exited(at int64, price, low, high float64) any {
	return Exited{Tick: marketdata.Tick{Price: price, Time: at}, Span: Span{low, high}, Left: float64(100_000-at) / 99_000}
}

// withExit returns a notification of an alert with an exit.
func withExit(m any, at int64) any {
	switch m := m.(type) {
	case Reached:
		m.Exit = at
		return m
	case Expired:
		m.Exit = at
		return m
	}
	return m
}

func TestExitsByTicks(t *testing.T) {
	t.Parallel()
	checkNotifications(t, []notifyCase{
		{"the first trade after it", steps{tick(2000, 95), exit(3000), tick(3000, 101), tick(3001, 102), tick(3002, 105)},
			[]any{exited(3001, 102, 95, 102)}},
		{"a stop that was touched before arrives after it", steps{tick(2000, 100), exit(3000), tick(2999, 89), tick(3001, 104)},
			[]any{withExit(reached(2999, 89, 89, 100), 3000)}},
		{"a trade of that very moment", steps{exit(3000), tick(3000, 110), tick(3001, 104)},
			[]any{withExit(reached(3000, 110, 110, 110), 3000)}},
		{"the first trade is beyond the stop", steps{tick(2000, 100), exit(3000), tick(3001, 80)},
			[]any{exited(3001, 80, 80, 100)}},
		{"the first trade is beyond the target", steps{tick(2000, 100), exit(3000), tick(3001, 120)},
			[]any{exited(3001, 120, 100, 120)}},
		{"the first trade comes with the expiry", steps{tick(2000, 100), exit(3000), tick(100_000, 99)},
			[]any{exited(100_000, 99, 99, 100)}},
		{"it expires before a trade", steps{tick(99_500, 100), exit(99_600), tick(100_001, 99)},
			[]any{withExit(expired(100_000, 100, 100, 100), 99_600)}},
		{"it expires by the clock", steps{tick(99_500, 100), exit(99_600), expire(102_000)},
			[]any{withExit(expired(100_000, 100, 100, 100), 99_600)}},
		{"it waits for a price after its expiry", steps{tick(80_000, 100), expire(103_000), exit(104_000), tick(110_000, 89)},
			[]any{withExit(reached(110_000, 89, 89, 100), 104_000)}},
	})
}

func TestExitsByBars(t *testing.T) {
	t.Parallel()
	touches := barOf(3000, 111, 89, 100)
	checkNotifications(t, []notifyCase{
		{"the open of the next bar", steps{opening(2000, 100, 101, 99, 100), exit(3500), opening(3000, 100, 104, 99, 103),
			opening(4000, 102, 120, 80, 100)}, []any{exited(4000, 102, 99, 104)}},
		{"the bar of that moment counts as a whole", steps{exit(3500), opening(3000, 100, 111, 89, 100),
			opening(4000, 102, 103, 101, 102)}, []any{withExit(reachedBy(touches), 3500)}},
		{"a bar that opens at that moment has it", steps{exit(3000), opening(3000, 100, 101, 99, 100),
			opening(4000, 97, 98, 96, 97)}, []any{exited(4000, 97, 97, 101)}},
		{"the next bar opens before the expiry and closes after it", steps{exit(99_200), opening(98_500, 100, 101, 99, 100),
			opening(99_500, 98, 120, 80, 100)}, []any{exited(99_500, 98, 98, 101)}},
		{"the next bar opens after the expiry", steps{exit(99_950), opening(99_000, 100, 101, 99, 100),
			opening(100_001, 98, 120, 80, 100)}, []any{withExit(expired(100_000, 100, 99, 101), 99_950)}},
	})
}
