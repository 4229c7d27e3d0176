package lifecycle

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// ownSignal is an open signal of an agent of the account.
func ownSignal() signal.Signal {
	s := openSignal("1")
	s.Agent = "my_agent"
	return s
}

// requestExit stores when the agent of the only signal has ended it, and returns the event.
func (h *harness) requestExit(at time.Time) signal.Event {
	h.set(func() {
		s := h.open[idOf("1")]
		s.ExitRequested = at
		h.open[s.ID] = s
	})
	return signal.Event{Type: signal.ExitRequested, Account: "acc_1", Subject: string(idOf("1")),
		Position: signal.Position{MS: at.UnixMilli()}}
}

// follow publishes events.
func (h *harness) follow(events ...signal.Event) {
	h.follower.Follow(events)
	synctest.Wait()
}

// exitOf returns the exit of the newest alert, and how many there were.
func (h *harness) exitOf() (exit int64, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.alerts["BTC"]
	return list[len(list)-1].Exit, len(list)
}

// wantClosing checks the only closing.
func (h *harness) wantClosing(t *testing.T, reason signal.CloseReason, at time.Time, exit float64, metadata string) {
	t.Helper()
	all := h.stored()
	if len(all) == 0 || all[len(all)-1].Signal.Closing == nil {
		t.Fatalf("it is not closed: %v", h.types())
	}
	s := all[len(all)-1].Signal
	if c := s.Closing; c.Reason != reason || !c.At.Equal(at) || c.ExitPrice == nil && exit != 0 ||
		c.ExitPrice != nil && *c.ExitPrice != exit || string(s.Metadata) != metadata {
		t.Errorf("closed by %s at %v, metadata %s", c.Reason, c.At, s.Metadata)
	}
}

// exitAfter is when the agents of these tests end their signals, after the creation.
const exitAfter = 5 * time.Minute

const requestedOnly = `{"exit_requested_at":"2000-01-01T00:05:00.000Z"}`

// The owner that hears of an exit and a new owner, which finds it in the open state, wait alike for the first price
// after it, and close alike.
func TestExitByTheFirstPriceAfterIt(t *testing.T) {
	t.Parallel()
	for name, successor := range map[string]bool{"the owner": false, "a new owner": true} {
		for how, m := range map[string]struct {
			message  any
			reason   signal.CloseReason
			after    time.Duration
			exit     float64
			metadata string
		}{
			"a trade": {alerts.Exited{Tick: tickAt(exitAfter+1, 0), Left: .7916666},
				signal.AgentExit, exitAfter + time.Second, 104.5,
				`{"exit_requested_at":"2000-01-01T00:05:00.000Z","life_left":0.791667}`},
			"a trade beyond the stop": {alerts.Exited{Left: 0}, signal.AgentExit, exitAfter + time.Second, 88,
				`{"exit_requested_at":"2000-01-01T00:05:00.000Z","life_left":0}`},
			"the open of a past bar": {alerts.Exited{Past: true, Left: 1}, signal.AgentExit, exitAfter + time.Second, 104.5,
				`{"resolved_by":"backfill","exit_requested_at":"2000-01-01T00:05:00.000Z","life_left":1}`},
			"the stop was reached before": {alerts.Reached{}, signal.StopLoss, exitAfter - time.Second, 89, requestedOnly},
			"it expires before a trade":   {alerts.Expired{}, signal.Expired, 24 * time.Minute, 101, requestedOnly},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := ownSignal()
					h := unstartedHarness(t, s)
					at := s.CreatedAt.Add(exitAfter)
					if successor {
						h.requestExit(at)
						h.start(Options{})
					} else {
						h.start(Options{})
						time.Sleep(exitAfter)
						event := h.requestExit(at)
						h.follow(event, event)
						h.follow(event)
					}
					if exit, n := h.exitOf(); exit != at.UnixMilli() || !successor && n != 2 {
						t.Fatalf("%d alerts, the newest with the exit %d", n, exit)
					}
					tick := marketdata.Tick{Price: m.exit, Time: s.CreatedAt.Add(m.after).UnixMilli()}
					switch x := m.message.(type) {
					case alerts.Exited:
						x.Tick = tick
						m.message = x
					case alerts.Reached:
						m.message = alerts.Reached{Tick: tick, Exit: at.UnixMilli()}
					case alerts.Expired:
						m.message = alerts.Expired{At: tick.Time, Price: tick.Price, Exit: at.UnixMilli()}
					}
					h.send(t, "BTC", m.message)
					h.wantEvents(t, signal.SignalClosed)
					h.wantClosing(t, m.reason, s.CreatedAt.Add(m.after), m.exit, m.metadata)
				})
			})
		}
	}
}

// A price that the owner sees before it hears of the exit decides only if it was before that.
func TestPricesBeforeTheOwnerHearsOfTheExit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		message func(exit int64) any
		kept    bool
	}{
		"a trade before the exit": {func(exit int64) any {
			return alerts.Reached{Tick: marketdata.Tick{Price: 89, Time: exit - 1}}
		}, true},
		"a trade after the exit": {func(exit int64) any {
			return alerts.Reached{Tick: marketdata.Tick{Price: 89, Time: exit + 20}}
		}, false},
		"the bar of the exit": {func(exit int64) any {
			return alerts.Reached{Tick: marketdata.Tick{Price: 91, Time: exit + 20},
				Bar: &marketdata.Bar{OpenTime: exit, CloseTime: exit + 20, Open: 100, High: 101, Low: 89, Close: 91}}
		}, true},
		"the bar after it": {func(exit int64) any {
			return alerts.Reached{Tick: marketdata.Tick{Price: 91, Time: exit + 20},
				Bar: &marketdata.Bar{OpenTime: exit + 1, CloseTime: exit + 20, Open: 100, High: 101, Low: 89, Close: 91}}
		}, false},
	} {
		for when, answered := range map[string]bool{"refused": true, "in flight": false} {
			t.Run(name+", "+when, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := ownSignal()
					h := newHarness(t, s)
					at := s.CreatedAt.Add(exitAfter)
					event, turn := h.requestExit(at), make(chan struct{})
					if !answered {
						h.set(func() { h.block = turn })
					}
					h.send(t, "BTC", c.message(at.UnixMilli()))
					h.wantEvents(t)
					h.follow(event)
					h.set(func() { h.block = nil })
					close(turn)
					time.Sleep(time.Minute)
					if !c.kept {
						h.wantEvents(t)
						h.send(t, "BTC", alerts.Reached{Tick: marketdata.Tick{Price: 88}}) // of the former alert
						h.send(t, "BTC", alerts.Exited{Tick: marketdata.Tick{Price: 97, Time: at.UnixMilli() + 10}, Left: .5})
						h.wantClosing(t, signal.AgentExit, at.Add(10*time.Millisecond), 97,
							`{"exit_requested_at":"2000-01-01T00:05:00.000Z","life_left":0.5}`)
					} else if got := h.stored(); len(got) != 1 || got[0].Signal.Closing.Reason != signal.StopLoss ||
						string(got[0].Signal.Metadata) != requestedOnly {
						t.Errorf("%d changes", len(got))
					}
					h.wantEvents(t, signal.SignalClosed)
				})
			})
		}
	}
}

// An update that crosses the exit is stored or not, and the signal closes after it.
func TestAnUpdateCrossesTheExit(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]bool{"stored before": true, "refused": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := ownSignal()
				h := newHarness(t, s)
				at := s.CreatedAt.Add(exitAfter)
				turn := make(chan struct{})
				h.set(func() { h.turns = map[signal.EventType]chan struct{}{signal.SignalUpdated: turn} })
				h.send(t, "BTC", alerts.BarClosed{Price: 107, Left: 1})
				if !stored {
					h.follow(h.requestExit(at))
				}
				close(turn)
				synctest.Wait()
				if stored {
					h.follow(h.requestExit(at))
				}
				h.send(t, "BTC", alerts.Exited{Tick: marketdata.Tick{Price: 104, Time: at.UnixMilli() + 1}, Left: .5})
				if stored {
					h.wantEvents(t, signal.SignalUpdated, signal.SignalClosed)
				} else {
					h.wantEvents(t, signal.SignalClosed)
				}
				h.wantClosing(t, signal.AgentExit, at.Add(time.Millisecond), 104,
					`{"exit_requested_at":"2000-01-01T00:05:00.000Z","life_left":0.5}`)
			})
		})
	}
}

// A signal without prices closes when its agent ends it, unless it has expired.
func TestExitWithoutPrices(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after     time.Duration
		successor bool
		reason    signal.CloseReason
		at        time.Duration
	}{
		"at once":                      {exitAfter, false, signal.AgentExit, exitAfter},
		"by a new owner":               {exitAfter, true, signal.AgentExit, exitAfter},
		"with the expiry":              {24 * time.Minute, true, signal.Expired, 24 * time.Minute},
		"after the expiry, new owner":  {25 * time.Minute, true, signal.Expired, 24 * time.Minute},
		"just before the expiry comes": {24*time.Minute - 1e6, false, signal.AgentExit, 24*time.Minute - 1e6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := ownSignal()
				s.Levels = nil
				h := unstartedHarness(t, s)
				if !c.successor {
					h.start(Options{})
				}
				time.Sleep(c.after)
				event := h.requestExit(s.CreatedAt.Add(c.after))
				if c.successor {
					h.start(Options{})
				} else {
					h.follow(event)
				}
				synctest.Wait()
				closing := h.stored()[0].Signal.Closing
				if closing.Reason != c.reason || !closing.At.Equal(s.CreatedAt.Add(c.at)) || closing.ExitPrice != nil {
					t.Errorf("closed as %+v", closing)
				}
				h.wantEvents(t, signal.SignalClosed)
			})
		})
	}
}

// An exit is not lost while the open signals are being read, which may show the signal as it was before.
func TestExitDuringTheRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := ownSignal()
		h := unstartedHarness(t, s)
		h.reading = make(chan struct{})
		h.start(Options{})
		event := h.requestExit(s.CreatedAt.Add(exitAfter))
		h.follow(event)
		close(h.reading)
		synctest.Wait()
		if exit, _ := h.exitOf(); exit != s.CreatedAt.Add(exitAfter).UnixMilli() {
			t.Errorf("the alert has the exit %d", exit)
		}
	})
}

// An exit that Redis has lost makes the owner load all signals again.
func TestALostExit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := ownSignal()
		h := newHarness(t, s)
		h.follow(h.requestExit(s.CreatedAt.Add(exitAfter)))
		h.rollBack(s, 1)
		h.send(t, "BTC", alerts.Exited{Tick: tickAt(exitAfter+time.Second, 104), Left: .5})
		time.Sleep(time.Minute)
		if len(h.lost) != 1 || signal.CodeOf(h.lost[0]) != signal.CodeExitRequested {
			t.Fatalf("the owner received %v", h.lost)
		}
		if exit, _ := h.exitOf(); exit != 0 {
			t.Errorf("the new alert has the exit %d", exit)
		}
	})
}

// A signal is watched by an older read although a newer one, for its exit, is under way.
func TestAnOlderReadCrossesTheExit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := ownSignal()
		h := unstartedHarness(t)
		h.start(Options{})
		newer := s
		newer.ExitRequested = s.CreatedAt.Add(exitAfter)
		for _, read := range []signal.Signal{s, newer, newer} {
			h.follower.parent.Tell(found{list: []signal.Signal{read}})
		}
		synctest.Wait()
		if exit, n := h.exitOf(); exit != newer.ExitRequested.UnixMilli() || n != 2 {
			t.Errorf("%d alerts, the newest with the exit %d", n, exit)
		}
	})
}
