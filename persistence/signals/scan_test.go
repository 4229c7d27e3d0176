package signals

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestScanSignals(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, 4)
	account := storetest.AccountIn(b.store, 0)
	var want []string
	origin := map[signal.SignalID]signal.Position{}
	wantChanges := map[signal.SignalID]float64{}
	for i := range 9 {
		s := storetest.Signal(account)
		s.Confidence = float64(i) / 10
		if i == 8 {
			s.Levels = nil
		}
		at := b.append(storetest.Created(s))
		origin[s.ID] = at
		want = append(want, fmt.Sprintf("created %s %v %v", s.ID, at, s.Confidence))
		changed := *s
		changed.Sequence, changed.Confidence = 2, .5+s.Confidence/2
		switch i % 3 {
		case 1:
			b.change(&changed, signal.SignalUpdated)
			wantChanges[s.ID] = changed.Confidence
		case 2:
			changed.Closing = &signal.Closing{Reason: signal.Expired}
			last := b.change(&changed, signal.SignalClosed)
			want = append(want, fmt.Sprintf("closed %s %v %v", s.ID, last, changed.Confidence))
		}
	}
	if n, err := b.store.CountOpen(t.Context(), 0); n != 6 || err != nil {
		t.Errorf("%d open signals are counted, want 6: %v", n, err)
	}
	// Records of another version are skipped.
	b.rdb.Do(t.Context(), "XADD", b.store.SignalsKey(0), "*", "h", "\x09\x01", "m", "")
	b.rdb.HSet(t.Context(), b.store.OpenKey(0), "bad", "1-1 1-1 \x09")
	var got []string
	changes := map[signal.SignalID]float64{}
	err := b.store.ScanSignals(t.Context(), 0, func(e signal.LogEntry) error {
		id := signal.SignalIDFromBytes(e.ULID)
		switch {
		case e.Account != account:
			t.Errorf("entry of account %s", e.Account)
		case e.Created == nil && e.Origin != origin[id]:
			t.Errorf("signal %s was created at %v, want %v", id, e.Origin, origin[id])
		case e.Created != nil:
			c := e.Created
			if !c.CreatedAt.Equal(e.Position.Time()) || c.Asset != "BTC" || c.Status != signal.Open ||
				c.Strategy != "momentum" || c.Agent != "trading" || c.Direction != signal.Long {
				t.Errorf("created: %+v", c)
			}
			if hasPrice := c.Entry != nil; hasPrice != (e.Confidence < .8) || hasPrice && *c.Entry != 64250.125 {
				t.Errorf("entry price of %s: %v", id, c.Entry)
			}
			got = append(got, fmt.Sprintf("created %s %v %v", id, e.Position, e.Confidence))
		case e.Closed:
			got = append(got, fmt.Sprintf("closed %s %v %v", id, e.Position, e.Confidence))
		default:
			changes[id] = e.Confidence
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
