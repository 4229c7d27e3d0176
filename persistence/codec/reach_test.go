package codec

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestAReachIsKept with the signal, while it is open, and with the event of its creation.
func TestAReachIsKept(t *testing.T) {
	t.Parallel()
	at := signal.Position{MS: 1795253400123}
	for name, reach := range map[string]*signal.Reach{"none": nil, "one": {Stop: 2.73, Bars: 24.5}} {
		s := &signal.Signal{ID: signal.NewSignalID(), Account: signal.NewAccountID(), Agent: "mine", Asset: "BTC",
			Strategy: "cross", Timeframe: signal.H1, Risk: signal.MediumRisk, Direction: signal.Long, Confidence: .5,
			Levels: &signal.Levels{Entry: 100, Stop: 99, Target: 102}, Reach: reach, CreatedAt: at.Time(),
			ExpiresAt: at.Time().Add(time.Hour), Initial: &signal.Initial{Confidence: .5}, Sequence: 2,
			ExitRequested: at.Time().Add(time.Minute),
			Updates:       []signal.Update{{At: at.Time().Add(time.Second), Confidence: .51, Price: 100.5}}}
		record, err := DecodeRecord(at, AppendRecord(nil, s, at.Time()), PackMetadata([]byte("{}")))
		if err != nil || !cmp.Equal(record.Reach, reach) {
			t.Errorf("%s: the record has %+v, %v", name, record.Reach, err)
		}
		value := append([]byte(at.String()+" "+at.String()+" "), AppendOpen(nil, s, at.Time())...)
		open, _, err := DecodeOpen([]byte(OpenField(s.ID)), value)
		if err != nil || !cmp.Equal(open.Reach, reach) || !open.ExitRequested.Equal(s.ExitRequested) || len(open.Updates) != 1 {
			t.Errorf("%s: the open signal has %+v, %v", name, open.Reach, err)
		}
		l := s.Listing()
		e := &signal.Event{ID: signal.NewEventID(), Account: s.Account, Type: signal.SignalCreated, Asset: s.Asset, Listing: &l,
			Initial: s.Initial, Opening: s.Opening()}
		event, err := DecodeEvent(at, AppendEvent(nil, e), nil)
		opened, ok := event.Opened()
		if err != nil || !ok || !cmp.Equal(opened.Reach, reach) {
			t.Errorf("%s: the event has %+v, %v", name, opened.Reach, err)
		}
	}
}
