package lifecycle

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
		w := newWorld(t, first)
		defer w.end()
		w.mu.Lock()
		w.open[second.ID] = second
		w.mu.Unlock()
		w.follower.Follow([]signal.Event{
			{Type: signal.SignalCreated, Account: "acc_1", Listing: &signal.Listing{ID: second.ID}},
			{Type: signal.SignalCreated, Account: "acc_1", Listing: &signal.Listing{ID: first.ID}}, // is watched already
			{Type: signal.SignalCreated, Account: "acc_1", Listing: &signal.Listing{ID: idOf("9")}},
			{Type: signal.AgentCompleted, Account: "acc_1"},
		})
		synctest.Wait()
		var got []alerts.Alert
		for _, a := range w.alerts["BTC"] {
			a.Ref = engine.Ref{}
			got = append(got, a)
		}
		since, expires := first.CreatedAt.UnixMilli(), first.ExpiresAt.UnixMilli()
		want := []alerts.Alert{{Lower: 90, Upper: 115, Since: since, Expires: expires, Frame: signal.H1},
			{Lower: 85, Upper: 110, Since: since, Expires: expires, Frame: signal.H1}}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b engine.Ref) bool { return a == b })); diff != "" {
			t.Errorf("alerts (-want +got):\n%s", diff)
		}
	})
}

func TestSignalsCloseOnceAndByTheRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		tell   any // made in the bubble if it is a function
		reason signal.CloseReason
		exit   float64
		pnl    float64 // percent
		more   string  // metadata
		data   string
	}{
		{name: "target, without the windfall", tell: func() any {
			return alerts.Reached{Tick: tickAt(10*time.Minute, 120), Span: alerts.Span{Low: 95, High: 120}}
		}, reason: signal.TakeProfit, exit: 115, pnl: 15,
			data: `{"signal_id":"sig_00000000000000000000000001","asset":"BTC","close_reason":"take_profit","entry_price":100,"exit_price":115,"pnl_percent":15,"pnl_absolute":15,"duration_minutes":10}`},
		{name: "stop, with the gap", tell: func() any {
			return alerts.Reached{Tick: tickAt(59*time.Second, 88.5), Span: alerts.Span{Low: 88.5, High: 101}}
		}, reason: signal.StopLoss, exit: 88.5, pnl: -11.5,
			data: `{"signal_id":"sig_00000000000000000000000001","asset":"BTC","close_reason":"stop_loss","entry_price":100,"exit_price":88.5,"pnl_percent":-11.5,"pnl_absolute":-11.5,"duration_minutes":0}`},
		{name: "both in a bar", tell: func() any {
			return alerts.Reached{Tick: tickAt(time.Minute, 100), Bar: &marketdata.Bar{Open: 100, High: 120, Low: 80, Close: 100}, Past: true, Span: alerts.Span{Low: 80, High: 120}}
		}, reason: signal.StopLoss, exit: 90, pnl: -10, more: `{"resolved_by":"backfill"}`,
			data: `{"signal_id":"sig_00000000000000000000000001","asset":"BTC","close_reason":"stop_loss","entry_price":100,"exit_price":90,"pnl_percent":-10,"pnl_absolute":-10,"duration_minutes":1}`},
		{name: "a bar that opens beyond the stop", tell: func() any {
			return alerts.Reached{Tick: tickAt(time.Minute, 87), Bar: &marketdata.Bar{Open: 85, High: 120, Low: 80, Close: 87}, Span: alerts.Span{Low: 80, High: 120}}
		}, reason: signal.StopLoss, exit: 85, pnl: -15,
			data: `{"signal_id":"sig_00000000000000000000000001","asset":"BTC","close_reason":"stop_loss","entry_price":100,"exit_price":85,"pnl_percent":-15,"pnl_absolute":-15,"duration_minutes":1}`},
		{name: "expired", tell: func() any {
			return alerts.Expired{At: time.Now().Add(24 * time.Minute).UnixMilli(), Price: 104.2, Span: alerts.Span{Low: 95, High: 110}}
		}, reason: signal.Expired, exit: 104.2, pnl: 4.2,
			data: `{"signal_id":"sig_00000000000000000000000001","asset":"BTC","close_reason":"expired","entry_price":100,"exit_price":104.2,"pnl_percent":4.2,"pnl_absolute":4.2,"duration_minutes":24}`},
		{name: "expired at an old price", tell: func() any {
			return alerts.Expired{At: time.Now().Add(27 * time.Minute).UnixMilli(), Price: 99, Stale: true, Past: true}
		}, reason: signal.Expired, exit: 99, pnl: -1, more: `{"resolved_by":"backfill","stale_exit":true}`,
			data: `{"signal_id":"sig_00000000000000000000000001","asset":"BTC","close_reason":"expired","entry_price":100,"exit_price":99,"pnl_percent":-1,"pnl_absolute":-1,"duration_minutes":27}`},
		{name: "expired without any price", tell: func() any { return alerts.Expired{At: time.Now().Add(27 * time.Minute).UnixMilli(), Stale: true} },
			reason: signal.Expired, exit: 100, more: `{"stale_exit":true}`,
			data: `{"signal_id":"sig_00000000000000000000000001","asset":"BTC","close_reason":"expired","entry_price":100,"exit_price":100,"pnl_percent":0,"pnl_absolute":0,"duration_minutes":27}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, openSignal("1"))
				defer w.end()
				w.send(t, "BTC", c.tell.(func() any)())
				w.send(t, "BTC", alerts.Reached{Tick: tickAt(time.Hour, 80)}) // too late: the actor has ended
				if got := w.types(); !slices.Equal(got, []signal.EventType{signal.SignalClosed}) {
					t.Fatalf("events %v", got)
				}
				change := w.changes[0]
				s := change.Signal
				if string(change.Events[0].Data) != c.data {
					t.Errorf("payload %s\nwant    %s", change.Events[0].Data, c.data)
				}
				if s.Closing.Reason != c.reason || *s.Closing.ExitPrice != c.exit || *s.Closing.PnLPercent != c.pnl || string(s.Metadata) != c.more ||
					s.Sequence != 2 || change.Epoch != 7 || change.Events[0].Asset != "BTC" {
					t.Errorf("closed as %+v %+v", s, *s.Closing)
				}
			})
		})
	}
}

func TestExcursionsAreInUnitsOfRisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, openSignal("1"))
		defer w.end()
		w.send(t, "BTC", alerts.BarClosed{At: time.Now().UnixMilli(), Price: 100, Span: alerts.Span{Low: 92, High: 104}})
		w.send(t, "BTC", alerts.Reached{Tick: tickAt(time.Minute, 116), Span: alerts.Span{Low: 95, High: 116}})
		if s := w.changes[len(w.changes)-1].Signal; s.MFE != 1.6 || s.MAE != -0.8 {
			t.Errorf("MFE %v, MAE %v", s.MFE, s.MAE)
		}
	})
}

// TestABarDoesNotCountBeyondTheLevel: the signal was closed there.
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
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, openSignal("1"))
			defer w.end()
			w.send(t, "BTC", alerts.Reached{Tick: tickAt(time.Minute, c.bar.Close), Bar: &c.bar, Span: alerts.Span{Low: c.bar.Low, High: c.bar.High}})
			if s := w.changes[len(w.changes)-1].Signal; s.MFE != c.mfe || s.MAE != c.mae {
				t.Errorf("%s: MFE %v, MAE %v, want %v and %v", name, s.MFE, s.MAE, c.mfe, c.mae)
			}
		})
	}
}

func TestConfidenceIsPublishedWhenItHasMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, openSignal("1"))
		defer w.end()
		bar := func(price float64) alerts.BarClosed {
			return alerts.BarClosed{At: time.Now().UnixMilli(), Price: price}
		}
		w.send(t, "BTC", bar(100.3)) // 0.4620: less than 0.02 more
		if got := w.types(); got != nil {
			t.Fatalf("events %v", got)
		}
		w.send(t, "BTC", bar(105))
		w.send(t, "BTC", bar(105.2)) // compared with the last published value
		w.send(t, "BTC", bar(100))
		if got := w.types(); !slices.Equal(got, []signal.EventType{signal.SignalUpdated, signal.SignalUpdated}) {
			t.Fatalf("events %v", got)
		}
		first, second := w.changes[0], w.changes[1]
		if first.Signal.Confidence != .648 || second.Signal.Confidence != .45 || first.Signal.Sequence != 2 || second.Signal.Sequence != 3 {
			t.Errorf("confidence %v then %v", first.Signal.Confidence, second.Signal.Confidence)
		}
		text := string(second.Events[0].Data)
		if !strings.Contains(text, `"confidence":0.45,"entry_price":100,"stop_loss":90,"take_profit":115,"status":"open","updated_at":"`) ||
			!strings.HasSuffix(text, `"previous":{"confidence":0.648}}`) {
			t.Errorf("payload %s", text)
		}
	})
}

func TestUpdateInProgressIsStoredBeforeTheClosing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, openSignal("1"))
		defer w.end()
		w.mu.Lock()
		w.block = make(chan struct{})
		w.mu.Unlock()
		w.send(t, "BTC", alerts.BarClosed{At: time.Now().UnixMilli(), Price: 105})
		w.send(t, "BTC", alerts.BarClosed{At: time.Now().UnixMilli(), Price: 110}) // while the first is in progress
		w.send(t, "BTC", alerts.Reached{Tick: tickAt(time.Minute, 116)})
		w.send(t, "BTC", alerts.BarClosed{At: time.Now().UnixMilli(), Price: 95}) // no update after the end
		close(w.block)
		synctest.Wait()
		if got := w.types(); !slices.Equal(got, []signal.EventType{signal.SignalUpdated, signal.SignalClosed}) {
			t.Fatalf("events %v", got)
		}
		if s := w.changes[1].Signal; s.Sequence != 3 || s.Confidence != .648 {
			t.Errorf("closed with sequence %d and confidence %v", s.Sequence, s.Confidence)
		}
	})
}

func TestWriteIsRetriedUntilItIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, openSignal("1"))
		defer w.end()
		w.failing = signal.Unavailable(errors.New("away"))
		w.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)})
		time.Sleep(time.Minute)
		w.mu.Lock()
		w.failing = nil
		w.mu.Unlock()
		time.Sleep(engine.LastBackoff)
		synctest.Wait()
		if got := w.types(); !slices.Equal(got, []signal.EventType{signal.SignalClosed}) {
			t.Errorf("events %v", got)
		}
	})
}

func TestRefusedWriteIsReportedToTheOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, openSignal("1"))
		defer w.end()
		w.failing = &signal.Error{Kind: signal.KindConflict, Code: "not_owner", Message: "another"}
		w.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)})
		if len(w.lost) != 1 || !errors.Is(w.lost[0], w.failing) {
			t.Errorf("the owner received %v", w.lost)
		}
	})
}

func TestSignalClosedElsewhereIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, openSignal("1"))
		defer w.end()
		w.mu.Lock()
		delete(w.open, idOf("1"))
		w.mu.Unlock()
		w.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)})
		if got := w.types(); got != nil || len(w.lost) != 0 {
			t.Errorf("events %v, lost %v", got, w.lost)
		}
		w.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)}) // a dead letter
	})
}

func TestAlertsAreMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, openSignal("1"))
		defer w.end()
		w.send(t, "BTC", alerts.Dropped{})
		if n := len(w.alerts["BTC"]); n != 2 || w.alerts["BTC"][0] != w.alerts["BTC"][1] {
			t.Errorf("%d alerts: %v", n, w.alerts["BTC"])
		}
	})
}

func TestSignalWithoutPricesExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := unstartedWorld(openSignal("1"))
		w.unknown = true
		w.start(Options{})
		defer w.end()
		time.Sleep(26 * time.Minute) // 24 until it expires; it waits 3 more for prices
		synctest.Wait()
		if got := w.types(); got != nil {
			t.Fatalf("events %v", got)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := w.types(); !slices.Equal(got, []signal.EventType{signal.SignalClosed}) {
			t.Fatalf("events %v", got)
		}
		closed := w.changes[0].Signal
		if string(closed.Metadata) != `{"stale_exit":true}` || closed.Closing.DurationMinutes != 27 || *closed.Closing.ExitPrice != 100 {
			t.Errorf("closed as %+v %s", closed.Closing, closed.Metadata)
		}
	})
}

// A signal waits in proportion to the duration of its own bars, whatever market.speed is.
func TestWaitsGoByTheSignalsOwnTime(t *testing.T) {
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
		if got := time.Duration(r.settleUntil()-r.expires) * time.Millisecond; got != c.want {
			t.Errorf("%s: it waits for %s, want %s", c.name, got, c.want)
		}
	}
}

func TestContentExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openSignal("1")
		s.Agent, s.Asset, s.Levels, s.ExpiresAt = "seo", "standing desk", nil, s.CreatedAt.Add(30*24*time.Hour)
		w := newWorld(t, s)
		defer w.end()
		time.Sleep(30*24*time.Hour - time.Second)
		synctest.Wait()
		if got := w.types(); got != nil || len(w.alerts) != 0 {
			t.Fatalf("events %v, alerts %v", got, w.alerts)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.types(); !slices.Equal(got, []signal.EventType{signal.SignalClosed}) {
			t.Fatalf("events %v", got)
		}
		want := `{"signal_id":"sig_00000000000000000000000001","asset":"standing desk","close_reason":"expired","entry_price":null,"exit_price":null,"pnl_percent":null,"pnl_absolute":null,"duration_minutes":43200}`
		if got := string(w.changes[0].Events[0].Data); got != want {
			t.Errorf("payload %s", got)
		}
	})
}

func TestSignalsOfADeletedAccountAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		other := openSignal("2")
		other.Account, other.Asset = "acc_2", "ETH"
		w := newWorld(t, openSignal("1"), other)
		defer w.end()
		w.follower.Follow([]signal.Event{{Type: signal.AccountDeleted, Account: "acc_1"}})
		synctest.Wait()
		w.send(t, "BTC", alerts.Reached{Tick: tickAt(0, 80)})
		w.send(t, "ETH", alerts.Reached{Tick: tickAt(0, 80)})
		if len(w.changes) != 1 || w.changes[0].Signal.ID != other.ID {
			t.Errorf("%d changes", len(w.changes))
		}
		if len(w.undone) != 1 || w.undone[0] != w.alerts["BTC"][0].Ref {
			t.Errorf("%d alerts are removed", len(w.undone))
		}
	})
}

// TestLateEndDoesNotAffectOtherSignals: a signal closed while its account was being
// deleted, or an earlier actor of the signal has ended. The parent continues without
// another read.
func TestLateEndDoesNotAffectOtherSignals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, other := openSignal("1"), openSignal("2")
		other.Account, other.Asset = "acc_2", "ETH"
		w := newWorld(t, first, other)
		defer w.end()
		former, reads := w.alerts["BTC"][0].Ref, w.reads
		w.follower.Follow([]signal.Event{{Type: signal.AccountDeleted, Account: "acc_1"}})
		for _, id := range []signal.SignalID{first.ID, other.ID} {
			w.follower.parent.Tell(ended{id, former})
		}
		synctest.Wait()
		if w.reads != reads || len(w.alerts["ETH"]) != 1 {
			t.Errorf("the open signals were read %d times more, the other one has %d alerts",
				w.reads-reads, len(w.alerts["ETH"]))
		}
		if !slices.Equal(w.undone, []engine.Ref{former}) {
			t.Errorf("alerts of %v are taken back, want of %v", w.undone, former)
		}
		w.send(t, "ETH", alerts.Reached{Tick: tickAt(0, 80)})
		if len(w.changes) != 1 || w.changes[0].Signal.ID != other.ID {
			t.Errorf("%d changes, want the closing of the other one", len(w.changes))
		}
	})
}

func TestWritesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var list []signal.Signal
		for i := range 3 * maxWrites {
			list = append(list, openSignal(strconv.Itoa(i)))
		}
		w := newWorld(t, list...)
		defer w.end()
		w.mu.Lock()
		w.block = make(chan struct{})
		added := w.alerts["BTC"]
		w.mu.Unlock()
		for _, a := range added {
			a.Ref.Tell(alerts.Reached{Tick: tickAt(0, 80)})
		}
		synctest.Wait()
		close(w.block)
		synctest.Wait()
		if w.maxInFlight != maxWrites || len(w.changes) != len(list) {
			t.Errorf("%d at once, %d in all", w.maxInFlight, len(w.changes))
		}
	})
}
