package persistence

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func TestScanSignals(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), eventlog.LogOptions{})
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
	if n, err := b.store.CountOpen(t.Context(), 0); n != 6 || err != nil {
		t.Errorf("%d open signals are counted, want 6: %v", n, err)
	}
	// Of another version: passed over.
	b.rdb.Do(t.Context(), "XADD", redisclient.SignalsKey(0), "*", "h", "\x09\x01", "m", "")
	b.rdb.HSet(t.Context(), redisclient.OpenKey(0), "bad", "1-1 1-1 \x09")
	var got []string
	changes := map[signal.SignalID]float64{}
	err := b.store.ScanSignals(t.Context(), 0, func(e signal.LogEntry) error {
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
	if err := b.store.ScanSignals(t.Context(), 0, func(signal.LogEntry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of the function: %v", err)
	}
}

func TestSignalByIDOfOthers(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), eventlog.LogOptions{})
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
	b.rdb.Del(t.Context(), redisclient.OpenKey(0))
	if _, err := b.store.SignalByID(t.Context(), account, s.ID, at, signal.Position{}); signal.KindOf(err) != signal.KindNotFound {
		t.Errorf("neither open nor closed: %v", err)
	}
}
