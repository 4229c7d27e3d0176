package http_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestHistoryOfASignal(t *testing.T) {
	t.Parallel()
	const (
		created = `{"type":"created","at":"2026-11-21T09:30:00.000Z","confidence":0.4372,"price":%s}`
		one     = `{"type":"updated","at":"2026-11-21T09:31:00.000Z","confidence":0.5,"price":101.125}`
		two     = `{"type":"updated","at":"2026-11-21T09:32:00.000Z","confidence":0.25,"price":null}`
		closed  = `{"type":"closed","at":"2026-11-21T09:40:00.000Z","confidence":0.25,"price":%s}`
	)
	exit := 66275.125
	closing := func(price *float64) *signal.Closing {
		return &signal.Closing{Reason: signal.TakeProfit, At: morning.Add(10 * time.Minute), ExitPrice: price}
	}
	updates := []signal.Update{{At: morning.Add(time.Minute), Confidence: .5, Price: 101.125},
		{At: morning.Add(2 * time.Minute), Confidence: .25}}
	for name, test := range map[string]struct {
		change func(s *signal.Signal)
		want   string
	}{
		"new":     {func(*signal.Signal) {}, fmt.Sprintf(created, "100")},
		"updated": {func(s *signal.Signal) { s.Updates = updates }, fmt.Sprintf(created, "100") + "," + one + "," + two},
		"updated and closed": {
			func(s *signal.Signal) { s.Updates, s.Closing = updates, closing(&exit) },
			fmt.Sprintf(created, "100") + "," + one + "," + two + "," + fmt.Sprintf(closed, "66275.125"),
		},
		"without prices": {
			func(s *signal.Signal) { s.Levels, s.Closing = nil, closing(nil) },
			fmt.Sprintf(created, "null") + "," + fmt.Sprintf(closed, "null"),
		},
		"updated by an earlier build": {
			func(s *signal.Signal) { s.Sequence, s.UpdatedAt = 3, morning.Add(2*time.Minute) },
			fmt.Sprintf(created, "100") + "," + two,
		},
		"updated by an earlier build, and closed": {
			func(s *signal.Signal) { s.Sequence, s.Closing = 4, closing(&exit) },
			fmt.Sprintf(created, "100") + "," + fmt.Sprintf(closed, "66275.125"),
		},
	} {
		f := &fakes{record: func(signal.SignalID, signal.Position, signal.Position) (*signal.Signal, error) {
			s := newSignal()
			s.CreatedAt, s.FirstConfidence, s.Confidence, s.Sequence = morning, .43724, .25, 1
			s.Levels = &signal.Levels{Entry: 100, Stop: 90, Target: 115}
			test.change(s)
			return s, nil
		}}
		a := do(t, newServer(t, f), "GET", "/v1/signals/"+string(signalID)+"/history", "")
		if want := `{"events":[` + test.want + `]}`; a.Status != 200 || a.Body != want {
			t.Errorf("%s: %d %s\nwant %s", name, a.Status, a.Body, want)
		}
	}
}

// TestHistoryOfOthers: it is refused as GET /v1/signals/{id} is.
func TestHistoryOfOthers(t *testing.T) {
	t.Parallel()
	f := &fakes{find: func(signal.AccountID, signal.SignalID) (created, closed signal.Position, err error) {
		return created, closed, signal.NotFound("signal")
	}}
	s := newServer(t, f)
	for _, id := range []string{string(signalID), "nosuch", "acc_01M7YQ1WTVKN9DZNWV9NV456V1"} {
		path := "/v1/signals/" + id
		a, b := do(t, s, "GET", path, ""), do(t, s, "GET", path+"/history", "")
		if a.Status != 404 || b.Status != 404 || a.problem(t).Detail != b.problem(t).Detail {
			t.Errorf("%s: %d %s, and %d %s", id, a.Status, a.Body, b.Status, b.Body)
		}
	}
}
