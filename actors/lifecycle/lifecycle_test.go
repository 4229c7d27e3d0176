package lifecycle

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/market/alerts"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

func TestOpenSignalsAreWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := openSignal("1"), openSignal("2")
		second.Direction, second.Levels = signal.Short, &signal.Levels{Entry: 100, Stop: 110, Target: 85}
		h := newHarness(t, first)
		h.set(func() { h.open[second.ID] = second })
		h.follower.Follow([]signal.Event{
			{Type: signal.SignalCreated, Account: "acc_1", Listing: &signal.Listing{ID: second.ID}},
			{Type: signal.SignalCreated, Account: "acc_1", Listing: &signal.Listing{ID: first.ID}}, // already watched
			{Type: signal.SignalCreated, Account: "acc_1", Listing: &signal.Listing{ID: idOf("9")}},
			{Type: signal.AgentCompleted, Account: "acc_1"},
		})
		synctest.Wait()
		var got []alerts.Alert
		for _, a := range h.alerts["BTC"] {
			a.Ref = engine.Ref{}
			got = append(got, a)
		}
		since, expires := first.CreatedAt.UnixMilli(), first.ExpiresAt.UnixMilli()
		want := []alerts.Alert{
			{Lower: 90, Upper: 115, Since: since, Expires: expires, Frame: signal.H1},
			{Lower: 85, Upper: 110, Since: since, Expires: expires, Frame: signal.H1},
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b engine.Ref) bool { return a == b })); diff != "" {
			t.Errorf("alerts (-want +got):\n%s", diff)
		}
	})
}

// The event of a new signal has what its actor needs. An older one may be of a signal that is
// closed, and one of an earlier version lacks some of it: those are read.
func TestNewSignalsAreNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := unstartedHarness(t)
		h.newest = signal.Position{MS: 5, Seq: 1}
		h.start(Options{})
		event := func(id string, at signal.Position, o *signal.Opening) signal.Event {
			s := openSignal(id)
			listing := s.Listing()
			return signal.Event{Type: signal.SignalCreated, Account: s.Account, Position: at, Listing: &listing, Opening: o}
		}
		s := openSignal("1")
		before := h.reads
		h.follower.Follow([]signal.Event{
			event("1", signal.Position{MS: 5, Seq: 2}, s.Opening()),
			{Type: signal.AccountDeleted, Account: "acc_2"},
			event("1", signal.Position{MS: 5, Seq: 2}, s.Opening()),
		})
		synctest.Wait()
		if n := len(h.alerts["BTC"]); n != 1 || h.reads != before {
			t.Errorf("%d alerts and %d reads for a new signal, want 1 and 0", n, h.reads-before)
		}
		h.set(func() {
			for _, id := range []string{"2", "3"} {
				h.open[idOf(id)] = openSignal(id)
			}
		})
		h.follower.Follow([]signal.Event{
			event("2", signal.Position{MS: 5, Seq: 1}, s.Opening()),
			event("3", signal.Position{MS: 6}, nil),
			event("4", signal.Position{MS: 5, Seq: 1}, s.Opening()), // closed since
		})
		synctest.Wait()
		if n := len(h.alerts["BTC"]); n != 3 || h.reads != before+1 {
			t.Errorf("%d alerts and %d reads in all, want 3 and 1", n, h.reads-before)
		}
		h.follower.Follow([]signal.Event{
			event("5", signal.Position{MS: 7}, s.Opening()),
			{Type: signal.AccountDeleted, Account: "acc_1"},
		})
		synctest.Wait()
		if n := len(h.alerts["BTC"]); n != 4 {
			t.Errorf("%d alerts in all, want 4", n)
		}
		for _, a := range h.alerts["BTC"] {
			if !slices.Contains(h.undone, a.Ref) {
				t.Errorf("a signal of the deleted account is watched")
			}
		}
	})
}

// expiredAfter returns the message that a signal has expired.
func expiredAfter(d time.Duration, price float64) alerts.Expired {
	return alerts.Expired{At: time.Now().Add(d).UnixMilli(), Price: price}
}

// reachedInBar returns the message that a bar has reached a level.
func reachedInBar(bar marketdata.Bar) alerts.Reached {
	span := alerts.Span{Low: bar.Low, High: bar.High}
	return alerts.Reached{Tick: tickAt(time.Minute, bar.Close), Bar: &bar, Span: span}
}

func TestSignalsCloseOnceByTheRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		message func() any // called in the bubble
		reason  signal.CloseReason
		exit    float64
		pnl     string // percent and absolute, with an entry of 100
		more    string // metadata
		minutes int
	}{
		{"target, without the windfall", func() any {
			return alerts.Reached{Tick: tickAt(10*time.Minute, 120), Span: alerts.Span{Low: 95, High: 120}}
		}, signal.TakeProfit, 115, "15", "", 10},
		{"stop, with the gap", func() any {
			return alerts.Reached{Tick: tickAt(59*time.Second, 88.5), Span: alerts.Span{Low: 88.5, High: 101}}
		}, signal.StopLoss, 88.5, "-11.5", "", 0},
		{"both in a bar", func() any {
			m := reachedInBar(marketdata.Bar{Open: 100, High: 120, Low: 80, Close: 100})
			m.Past = true
			return m
		}, signal.StopLoss, 90, "-10", `{"resolved_by":"backfill"}`, 1},
		{"a bar that opens beyond the stop", func() any {
			return reachedInBar(marketdata.Bar{Open: 85, High: 120, Low: 80, Close: 87})
		}, signal.StopLoss, 85, "-15", "", 1},
		{"expired", func() any {
			m := expiredAfter(24*time.Minute, 104.2)
			m.Span = alerts.Span{Low: 95, High: 110}
			return m
		}, signal.Expired, 104.2, "4.2", "", 24},
		{"expired at an old price", func() any {
			m := expiredAfter(27*time.Minute, 99)
			m.Stale, m.Past = true, true
			return m
		}, signal.Expired, 99, "-1", `{"resolved_by":"backfill","stale_exit":true}`, 27},
		{"expired without any price", func() any {
			m := expiredAfter(27*time.Minute, 0)
			m.Stale = true
			return m
		}, signal.Expired, 100, "0", `{"stale_exit":true}`, 27},
	} {
		t.Run(c.name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				h.send(t, "BTC", c.message())
				h.send(t, "BTC", alerts.Reached{Tick: tickAt(time.Hour, 80)}) // too late: the actor has ended
				h.wantEvents(t, signal.SignalClosed)
				change := h.stored()[0]
				want := fmt.Sprintf(`{"signal_id":"%s","asset":"BTC","close_reason":"%s","entry_price":100,`+
					`"exit_price":%v,"pnl_percent":%s,"pnl_absolute":%s,"duration_minutes":%d}`,
					idOf("1"), c.reason, c.exit, c.pnl, c.pnl, c.minutes)
				if got := string(change.Events[0].Data); got != want {
					t.Errorf("payload %s\nwant    %s", got, want)
				}
				s := change.Signal
				pnl := strconv.FormatFloat(*s.Closing.PnLPercent, 'f', -1, 64)
				if s.Closing.Reason != c.reason || *s.Closing.ExitPrice != c.exit || pnl != c.pnl ||
					string(s.Metadata) != c.more || change.Epoch != 7 || change.Events[0].Asset != "BTC" {
					t.Errorf("closed as %+v %+v", s, *s.Closing)
				}
			})
		})
	}
}

func TestExcursionsAreInUnitsOfRisk(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.send(t, "BTC", alerts.BarClosed{Price: 100, Span: alerts.Span{Low: 92, High: 104}, Left: 1})
		h.send(t, "BTC", alerts.Reached{Tick: tickAt(time.Minute, 116), Span: alerts.Span{Low: 95, High: 116}})
		if s := h.stored()[len(h.stored())-1].Signal; s.MFE != 1.6 || s.MAE != -0.8 {
			t.Errorf("MFE %v, MAE %v", s.MFE, s.MAE)
		}
	})
}

// A bar does not count beyond the level, at which the signal was closed.
func TestABarDoesNotCountBeyondTheLevel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bar      marketdata.Bar
		mfe, mae float64
	}{
		"stop":   {marketdata.Bar{Open: 99, High: 104, Low: 70, Close: 80}, .4, -1},
		"gap":    {marketdata.Bar{Open: 85, High: 104, Low: 70, Close: 80}, .4, -1.5},
		"target": {marketdata.Bar{Open: 99, High: 140, Low: 98, Close: 130}, 1.5, -.2},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				h.send(t, "BTC", reachedInBar(c.bar))
				if s := h.stored()[len(h.stored())-1].Signal; s.MFE != c.mfe || s.MAE != c.mae {
					t.Errorf("MFE %v, MAE %v, want %v and %v", s.MFE, s.MAE, c.mfe, c.mae)
				}
			})
		})
	}
}

func TestConfidenceIsPublishedWhenItHasMoved(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		bar := func(price float64) alerts.BarClosed {
			return alerts.BarClosed{At: time.Now().UnixMilli(), Price: price, Left: 1}
		}
		h.send(t, "BTC", bar(100.3)) // 0.4620: less than 0.02 more
		h.wantEvents(t)
		h.send(t, "BTC", bar(105))
		h.send(t, "BTC", bar(105.2)) // compared with the last published value
		h.send(t, "BTC", bar(100))
		h.wantEvents(t, signal.SignalUpdated, signal.SignalUpdated)
		if a, b := h.stored()[0].Signal.Confidence, h.stored()[1].Signal.Confidence; a != .648 || b != .45 {
			t.Errorf("confidence %v then %v", a, b)
		}
		text := string(h.stored()[1].Events[0].Data)
		const members = `"confidence":0.45,"entry_price":100,"stop_loss":90,"take_profit":115,` +
			`"status":"open","updated_at":"`
		for i, price := range []float64{105, 100} {
			s, data := h.stored()[i].Signal, string(h.stored()[i].Events[0].Data)
			want := []signal.Update{{At: s.UpdatedAt, Confidence: s.Confidence, Price: price}}
			if d := cmp.Diff(want, s.Updates); d != "" || !strings.Contains(data, s.UpdatedAt.Format(signal.TimeLayout)) {
				t.Errorf("update %d with payload %s (-want +got):\n%s", i, data, d)
			}
		}
		if !strings.Contains(text, members) || !strings.HasSuffix(text, `"previous":{"confidence":0.648}}`) {
			t.Errorf("payload %s", text)
		}
	})
}

// TestEventsCarryTheInitialValues: those of a signal that an older version stored are derived.
func TestEventsCarryTheInitialValues(t *testing.T) {
	expected := .125
	for name, test := range map[string]struct{ stored, want *signal.Initial }{
		"stored": {
			&signal.Initial{Confidence: .44, ExpectedRNet: &expected},
			&signal.Initial{Confidence: .44, ExpectedRNet: &expected},
		},
		"of an older version": {nil, &signal.Initial{Confidence: .45}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := openSignal("1")
				s.Initial = test.stored
				h := newHarness(t, s)
				defer h.end()
				h.send(t, "BTC", alerts.BarClosed{At: time.Now().UnixMilli(), Price: 105, Left: 1})
				h.send(t, "BTC", alerts.Reached{Tick: tickAt(time.Minute, 116)})
				h.wantEvents(t, signal.SignalUpdated, signal.SignalClosed)
				for _, c := range h.stored() {
					if d := cmp.Diff(test.want, c.Events[0].Initial); d != "" {
						t.Errorf("%s (-want +got):\n%s", c.Events[0].Type, d)
					}
				}
			})
		})
	}
}

func TestUpdateInProgressIsStoredBeforeTheClosing(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() { h.block = make(chan struct{}) })
		h.send(t, "BTC", alerts.BarClosed{At: time.Now().UnixMilli(), Price: 105, Left: 1})
		h.send(t, "BTC", alerts.BarClosed{At: time.Now().UnixMilli(), Price: 110, Left: 1}) // while the first is in progress
		h.send(t, "BTC", alerts.Reached{Tick: tickAt(time.Minute, 116)})
		h.send(t, "BTC", alerts.BarClosed{At: time.Now().UnixMilli(), Price: 95, Left: 1}) // no update after the end
		close(h.block)
		synctest.Wait()
		h.wantEvents(t, signal.SignalUpdated, signal.SignalClosed)
		if s := h.stored()[1].Signal; s.Sequence != 3 || s.Confidence != .648 {
			t.Errorf("closed with sequence %d and confidence %v", s.Sequence, s.Confidence)
		}
	})
}

func TestWriteIsRetriedUntilItIsStored(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.failing = signal.Unavailable(errors.New("down"))
		h.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)})
		time.Sleep(time.Minute)
		h.set(func() { h.failing = nil })
		time.Sleep(backoff.DefaultMax)
		synctest.Wait()
		h.wantEvents(t, signal.SignalClosed)
	})
}

func TestRefusedWriteIsReportedToTheOwner(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.failing = &signal.Error{Kind: signal.KindConflict, Code: "not_owner", Message: "another"}
		h.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)})
		if len(h.lost) != 1 || !errors.Is(h.lost[0], h.failing) {
			t.Errorf("the owner received %v", h.lost)
		}
	})
}

func TestSignalClosedElsewhereIsDropped(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.set(func() { delete(h.open, idOf("1")) })
		h.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)})
		if got := h.types(); got != nil || len(h.lost) != 0 {
			t.Errorf("events %v, lost %v", got, h.lost)
		}
		h.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)}) // a dead letter
	})
}

func TestDroppedAlertsAreAddedAgain(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.send(t, "BTC", alerts.Dropped{})
		if n := len(h.alerts["BTC"]); n != 2 || h.alerts["BTC"][0] != h.alerts["BTC"][1] {
			t.Errorf("%d alerts: %v", n, h.alerts["BTC"])
		}
	})
}

func TestSignalWithoutPricesExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := unstartedHarness(t, openSignal("1"))
		h.unknown = true
		h.start(Options{})
		time.Sleep(26 * time.Minute) // 24 until it expires; it waits 3 more for prices
		synctest.Wait()
		h.wantEvents(t)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		h.wantEvents(t, signal.SignalClosed)
		closed := h.stored()[0].Signal
		if string(closed.Metadata) != `{"stale_exit":true}` || closed.Closing.DurationMinutes != 27 ||
			*closed.Closing.ExitPrice != 100 {
			t.Errorf("closed as %+v %s", closed.Closing, closed.Metadata)
		}
	})
}

// A signal waits in proportion to the duration of its own bars, regardless of market.speed.
func TestGraceFollowsTheLifetimeOfTheSignal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		timeframe signal.Timeframe
		risk      signal.RiskLevel
		life      time.Duration
		want      time.Duration
	}{
		{"real time", signal.H1, signal.MediumRisk, 24 * time.Hour, 3 * time.Hour},
		{"twice the life", signal.H1, signal.HighRisk, 48 * time.Hour, 3 * time.Hour},
		{"compressed", signal.H1, signal.LowRisk, 24 * time.Minute, 3 * time.Minute},
		{"no less than ten seconds", signal.M1, signal.MediumRisk, time.Minute, 10 * time.Second},
		{"no timeframe", "", signal.MediumRisk, time.Minute, 3 * time.Minute},
	} {
		s := openSignal("1")
		s.Timeframe, s.Risk, s.ExpiresAt = c.timeframe, c.risk, s.CreatedAt.Add(c.life)
		r := kinds{}.record(&s)
		if got := time.Duration(r.graceDeadline()-r.expires) * time.Millisecond; got != c.want {
			t.Errorf("%s: it waits for %s, want %s", c.name, got, c.want)
		}
	}
}

func TestContentExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openSignal("1")
		s.Agent, s.Asset, s.Levels, s.ExpiresAt = "seo", "standing desk", nil, s.CreatedAt.Add(30*24*time.Hour)
		h := newHarness(t, s)
		time.Sleep(30*24*time.Hour - time.Second)
		synctest.Wait()
		if got := h.types(); got != nil || len(h.alerts) != 0 {
			t.Fatalf("events %v, alerts %v", got, h.alerts)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		h.wantEvents(t, signal.SignalClosed)
		want := `{"signal_id":"` + string(s.ID) + `","asset":"standing desk","close_reason":"expired",` +
			`"entry_price":null,"exit_price":null,"pnl_percent":null,"pnl_absolute":null,"duration_minutes":43200}`
		if got := string(h.stored()[0].Events[0].Data); got != want {
			t.Errorf("payload %s", got)
		}
	})
}

func TestSignalsOfADeletedAccountAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		other := openSignal("2")
		other.Account, other.Asset = "acc_2", "ETH"
		h := newHarness(t, openSignal("1"), other)
		h.follower.Follow([]signal.Event{{Type: signal.AccountDeleted, Account: "acc_1"}})
		synctest.Wait()
		h.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)})
		h.send(t, "ETH", alerts.Reached{Tick: tickAt(0, 80)})
		if len(h.stored()) != 1 || h.stored()[0].Signal.ID != other.ID {
			t.Errorf("%d changes", len(h.stored()))
		}
		if len(h.undone) != 1 || h.undone[0] != h.alerts["BTC"][0].Ref {
			t.Errorf("%d alerts are removed", len(h.undone))
		}
	})
}

// A signal may close while its account is being deleted, or an earlier actor of it may end
// late. The parent continues without another read.
func TestLateEndDoesNotAffectOtherSignals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, other := openSignal("1"), openSignal("2")
		other.Account, other.Asset = "acc_2", "ETH"
		h := newHarness(t, first, other)
		former, reads := h.alerts["BTC"][0].Ref, h.reads
		h.follower.Follow([]signal.Event{{Type: signal.AccountDeleted, Account: "acc_1"}})
		for _, id := range []signal.SignalID{first.ID, other.ID} {
			h.follower.parent.Tell(ended{id, former})
		}
		synctest.Wait()
		if h.reads != reads || len(h.alerts["ETH"]) != 1 {
			t.Errorf("the open signals were read %d times more, the other one has %d alerts",
				h.reads-reads, len(h.alerts["ETH"]))
		}
		if !slices.Equal(h.undone, []engine.Ref{former}) {
			t.Errorf("alerts of %v are removed, want of %v", h.undone, former)
		}
		h.send(t, "ETH", alerts.Reached{Tick: tickAt(0, 80)})
		if len(h.stored()) != 1 || h.stored()[0].Signal.ID != other.ID {
			t.Errorf("%d changes, want the closing of the other one", len(h.stored()))
		}
	})
}

// TestClosingsDoNotWaitForUpdates: when a bar closes, most signals are updated at once.
func TestClosingsDoNotWaitForUpdates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list := openSignals(3 * maxUpdates)
		other := openSignal("999")
		other.Asset = "ETH"
		h := newHarness(t, append(list, other)...)
		turn := make(chan struct{})
		h.set(func() { h.turns = map[signal.EventType]chan struct{}{signal.SignalUpdated: turn} })
		h.sendAll("BTC", alerts.BarClosed{Price: 105, Left: 1})
		if n := h.inFlight(); n != maxUpdates {
			t.Errorf("%d updates are written at once, want %d", n, maxUpdates)
		}
		h.send(t, "ETH", alerts.Reached{Tick: tickAt(0, 80)})
		h.wantEvents(t, signal.SignalClosed)
		close(turn)
		synctest.Wait()
		if n := len(h.stored()); n != len(list)+1 {
			t.Errorf("%d changes are stored, want %d", n, len(list)+1)
		}
	})
}

func TestWritesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list := openSignals(3 * maxClosings)
		h := newHarness(t, list...)
		h.set(func() { h.block = make(chan struct{}) })
		h.sendAll("BTC", alerts.Reached{Tick: tickAt(0, 80)})
		close(h.block)
		synctest.Wait()
		if h.maxInFlight != maxClosings || len(h.stored()) != len(list) {
			t.Errorf("%d at once, %d in all", h.maxInFlight, len(h.stored()))
		}
	})
}
