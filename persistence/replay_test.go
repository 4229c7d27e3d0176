package persistence

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/google/go-cmp/cmp"
)

func TestReadEvents(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	ctx := t.Context()
	a, other := accountIn(b.store, 0), accountIn(b.store, 0)
	var at, others []signal.Position
	for i := range 2500 {
		at = append(at, b.append(noted(a, strconv.Itoa(i))))
		if i%2 == 0 {
			others = append(others, b.append(noted(other, "other")))
		}
	}
	check := func(name string, account signal.AccountID, after signal.Position, limit, wantFirst, wantCount int, wantComplete bool) {
		t.Helper()
		events, complete, err := b.store.ReadEvents(ctx, account, after, limit)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if complete != wantComplete || complete && len(events) != wantCount {
			t.Errorf("%s: %d events, complete %v; want %d, %v", name, len(events), complete, wantCount, wantComplete)
		}
		for i, e := range events {
			if e.Account != account || string(e.Data) != strconv.Itoa(wantFirst+i) {
				t.Fatalf("%s: event %d is %s of %s", name, i, e.Data, e.Account)
			}
		}
	}
	check("all", a, signal.Position{}, 10_000, 0, 2500, true)
	check("from the middle", a, at[999], 10_000, 1000, 1500, true)
	check("exactly as many", a, at[999], 1500, 1000, 1500, true)
	check("too many", a, at[999], 1499, 1000, 0, false)
	check("from the end", a, at[2499], 10, 0, 0, true)
	check("unknown account", signal.AccountID("acc_none"), signal.Position{}, 10, 0, 0, true)
	check("from the future", a, signal.Position{MS: at[2499].MS + 1e6}, 10, 0, 0, false)

	check("a position that never was", a, signal.Position{MS: at[5].MS - 1e6}, 10_000, 0, 0, false)
	// Trimming: what is behind the first that is left is complete.
	if err := b.rdb.XTrimMinID(ctx, eventsKey(0), at[1200].String()).Err(); err != nil {
		t.Fatal(err)
	}
	check("trimmed", a, at[1198], 10_000, 1200, 0, false)
	check("first that is left", a, at[1200], 10_000, 1201, 1299, true)
	check("from the start of a trimmed log", a, signal.Position{}, 10_000, 1200, 0, false)
	// Entries of another account are erased: nothing of a is lost.
	b.rdb.XDel(ctx, eventsKey(0), others[750].String())
	check("before a removed entry", a, at[1400], 10_000, 1401, 1099, true)
	check("at a removed entry", a, others[750], 10_000, 1501, 999, true)
	if first, err := b.store.FirstEvent(ctx, 0); err != nil || first != at[1200] {
		t.Errorf("FirstEvent = %v, %v; want %v", first, err, at[1200])
	}
	if first, err := b.store.FirstEvent(ctx, 1); err != nil || !first.IsZero() {
		t.Errorf("FirstEvent of an empty log = %v, %v", first, err)
	}
}

func TestReadLog(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	a, other := accountIn(b.store, 0), accountIn(b.store, 0)
	for i := range 30 {
		b.append(noted([]signal.AccountID{a, other}[i%2], strconv.Itoa(i)))
	}
	after, n := signal.Position{}, 0
	for {
		events, err := b.store.ReadLog(t.Context(), 0, after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			if string(e.Data) != strconv.Itoa(n) {
				t.Fatalf("event %d is %s", n, e.Data)
			}
			n++
		}
		after = events[len(events)-1].Position
	}
	if n != 30 {
		t.Errorf("%d events, want 30", n)
	}
}

func TestScanSignals(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := accountIn(b.store, 0)
	var want []string
	origin := map[signal.SignalID]signal.Position{}
	wantChanges := map[signal.SignalID]float64{}
	for i := range 9 {
		s := logSignal(account)
		s.Confidence = float64(i) / 10
		if i == 8 {
			s.Levels = nil
		}
		at := b.append(created(s))
		origin[s.ID] = at
		want = append(want, fmt.Sprintf("created %s %v %v", s.ID, at, s.Confidence))
		changed := *s
		changed.Sequence, changed.Confidence = 2, .5+s.Confidence/2
		switch i % 3 {
		case 1:
			b.append(signal.Change{Account: account, Signal: &changed, Events: []signal.Event{{Type: signal.SignalUpdated}}})
			wantChanges[s.ID] = changed.Confidence
		case 2:
			changed.Closing = &signal.Closing{Reason: signal.Expired}
			last := b.append(signal.Change{Account: account, Signal: &changed, Events: []signal.Event{{Type: signal.SignalClosed}}})
			want = append(want, fmt.Sprintf("closed %s %v %v", s.ID, last, changed.Confidence))
		}
	}
	// Of another version: passed over.
	b.rdb.Do(t.Context(), "XADD", signalsKey(0), "*", "h", "\x09\x01", "m", "")
	b.rdb.HSet(t.Context(), openKey(0), "bad", "1-1 1-1 \x09")
	var got []string
	changes := map[signal.SignalID]float64{}
	err := b.store.ScanSignals(t.Context(), 0, func(e SignalEntry) error {
		switch {
		case e.Account != account:
			t.Errorf("entry of account %s", e.Account)
		case e.Created == nil && e.Origin != origin[e.ID]:
			t.Errorf("signal %s was created at %v, want %v", e.ID, e.Origin, origin[e.ID])
		case e.Created != nil:
			if e.Created.ID != e.ID || !e.Created.CreatedAt.Equal(e.Position.Time()) || e.Created.Asset != "BTC" || e.Created.Status != signal.Open ||
				e.Created.Strategy != "momentum" || e.Created.Agent != "trading" || e.Created.Direction != signal.Long {
				t.Errorf("created: %+v", e.Created)
			}
			if hasPrice := e.Created.Entry != nil; hasPrice != (e.Confidence < .8) || hasPrice && *e.Created.Entry != 64250.125 {
				t.Errorf("entry price of %s: %v", e.ID, e.Created.Entry)
			}
			got = append(got, fmt.Sprintf("created %s %v %v", e.ID, e.Position, e.Confidence))
		case e.Closed:
			got = append(got, fmt.Sprintf("closed %s %v %v", e.ID, e.Position, e.Confidence))
		default:
			changes[e.ID] = e.Confidence
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("entries\n%v\nwant\n%v", got, want)
	}
	if diff := cmp.Diff(wantChanges, changes); diff != "" {
		t.Errorf("changed confidences (-want +got):\n%s", diff)
	}
	stop := errors.New("stop")
	if err := b.store.ScanSignals(t.Context(), 0, func(SignalEntry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the function: %v", err)
	}
}

func TestSignalByIDOfOthers(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{})
	account := accountIn(b.store, 0)
	s := logSignal(account)
	at := b.append(created(s))
	for name, read := range map[string]func() error{
		"another account": func() error {
			_, err := b.store.SignalByID(t.Context(), accountIn(b.store, 0), s.ID, at, signal.Position{})
			return err
		},
		"another signal": func() error {
			_, err := b.store.SignalByID(t.Context(), account, signal.NewSignalID(), at, signal.Position{})
			return err
		},
		"another position": func() error {
			_, err := b.store.SignalByID(t.Context(), account, s.ID, at.Plus(1), signal.Position{})
			return err
		},
		"a closing that is none": func() error {
			_, err := b.store.SignalByID(t.Context(), account, s.ID, at, at.Plus(1))
			return err
		},
	} {
		if err := read(); signal.KindOf(err) != signal.KindNotFound {
			t.Errorf("%s: %v, want not found", name, err)
		}
	}
	// Erased, but never closed.
	b.rdb.Del(t.Context(), openKey(0))
	if _, err := b.store.SignalByID(t.Context(), account, s.ID, at, signal.Position{}); signal.KindOf(err) != signal.KindNotFound {
		t.Errorf("neither open nor closed: %v", err)
	}
}
