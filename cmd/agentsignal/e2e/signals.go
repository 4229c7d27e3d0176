package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

// WireState is a signal with its state, as GET /v1/signals/{id} answers.
type WireState struct {
	WireSignal
	Status       string
	UpdatedAt    string          `json:"updated_at"`
	ExpiresAt    string          `json:"expires_at"`
	ClosedAt     *string         `json:"closed_at"`
	Reason       *string         `json:"close_reason"`
	Exit         *float64        `json:"exit_price"`
	PnLPercent   *float64        `json:"pnl_percent"`
	PnLAbsolute  *float64        `json:"pnl_absolute"`
	Minutes      *int            `json:"duration_minutes"`
	Initial      float64         `json:"initial_confidence"`
	Final        *float64        `json:"final_confidence"`
	R            *float64        `json:"r"`
	MFE          *float64        `json:"mfe_r"`
	MAE          *float64        `json:"mae_r"`
	MetadataText json.RawMessage `json:"metadata"`
}

// State returns a signal with its state.
func (c *Client) State(id string) WireState {
	c.TB.Helper()
	return Decode[WireState](c.TB, c.Get("/v1/signals/"+id).Want(c.TB, 200).Body)
}

// TickAt writes a trade of a time.
func (m Pricer) TickAt(asset string, price float64, at time.Time) {
	m.tb.Helper()
	m.Add("market:ticks", []any{"asset", asset, "price", strconv.FormatFloat(price, 'f', -1, 64), "time",
		at.UnixMilli()})
}

// Change records that a signal was updated or closed, as its owner does.
func (s *Service) Change(
	tb testing.TB, account signal.AccountID, id string, kind signal.EventType, data string, f func(*signal.Signal),
) {
	tb.Helper()
	created, closed, err := s.Catalogue().Find(tb.Context(), account, nil, signal.SignalID(id))
	if err != nil {
		tb.Fatalf("find %s: %v", id, err)
	}
	found, err := s.Store().Signals.SignalByID(tb.Context(), account, signal.SignalID(id), created, closed)
	if err != nil {
		tb.Fatalf("read %s: %v", id, err)
	}
	found.Sequence++
	found.Metadata, found.Updates = nil, nil
	f(found)
	_, err = s.Events().Append(tb.Context(), signal.Change{Account: account, Signal: found,
		Events: []signal.Event{{Type: kind, Asset: found.Asset, Data: []byte(data)}}})
	if err != nil {
		tb.Fatalf("append %s of %s: %v", kind, id, err)
	}
}

// OwnSignal records a long signal of ACME by an agent of the account: entry 100, stop 90, target 115.
func (s *Service) OwnSignal(tb testing.TB, account signal.AccountID, change ...func(*signal.Signal)) string {
	tb.Helper()
	made := storetest.Signal(account)
	made.Agent, made.Asset, made.Levels = "my_agent", "ACME", &signal.Levels{Entry: 100, Stop: 90, Target: 115}
	made.CreatedAt = time.Now()
	made.ExpiresAt = made.CreatedAt.Add(24 * time.Hour)
	for _, f := range change {
		f(made)
	}
	data := append(signal.AppendMembers([]byte{'{'}, made), `,"metadata":`+string(made.Metadata)+`}`...)
	_, err := s.Events().Append(tb.Context(), signal.Change{Account: account, Signal: made,
		Events: []signal.Event{{Type: signal.SignalCreated, Asset: made.Asset, Data: data}}})
	if err != nil {
		tb.Fatalf("append a signal: %v", err)
	}
	return string(made.ID)
}

// AwaitExit waits until the exit of an open signal is requested, and returns when it was.
func (s *Service) AwaitExit(tb testing.TB, account signal.AccountID, id string) (at time.Time) {
	tb.Helper()
	store := s.Store().Signals
	Eventually(tb, "the exit is requested", func() bool {
		open, err := store.OpenSignalsOf(tb.Context(), store.Partition(account), []signal.SignalID{signal.SignalID(id)})
		if err == nil && len(open) == 1 {
			at = open[0].ExitRequested
		}
		return !at.IsZero()
	})
	return at
}

// WireExit is the answer to the exit of a signal.
type WireExit struct {
	WireState
	Requested *string `json:"exit_requested_at"`
}

// Close requests the exit of a signal. The answer comes when it is closed, or after two seconds.
func (c *Client) Close(id string) WireExit {
	c.TB.Helper()
	return Decode[WireExit](c.TB, c.Post("/v1/signals/"+id+"/close", "").Ok(c.TB).Body)
}

// Published are the confidences of a signal: in the answer of its run and at its end.
type Published struct{ Initial, Final float64 }

// CloseAll publishes a new confidence of each signal and closes it, as its owner does. Those
// that win end with a high confidence, those that lose with a low one.
func (s *Service) CloseAll(t *testing.T, account signal.AccountID, made []WireSignal) map[string]Published {
	t.Helper()
	random := rand.New(rand.NewPCG(11, 0))
	all := make(map[string]Published)
	for i, w := range made {
		exit, reason, final := *w.Target, signal.TakeProfit, .95
		switch random.IntN(5) {
		case 0, 1, 2:
			exit, reason, final = *w.Stop, signal.StopLoss, .05
		case 3:
			exit, reason, final = *w.Entry, signal.Expired, .3
		}
		all[w.ID] = Published{w.Confidence, final}
		s.Change(t, account, w.ID, signal.SignalUpdated, `{}`, func(s *signal.Signal) {
			s.Confidence, s.FirstConfidence = final, s.FirstConfidence+.03 // as after a new forecast
			s.MFE, s.MAE = random.Float64(), -random.Float64()
		})
		s.Change(t, account, w.ID, signal.SignalClosed, `{}`, func(s *signal.Signal) {
			at := s.CreatedAt.Add(time.Duration(i+1) * time.Minute)
			closing := strategy.Close(s, strategy.Exit{Reason: reason, Price: exit}, at)
			s.Closing = &closing
		})
	}
	return all
}

// Outcome returns the outcome of a closed signal from what the API shows of it. cost is that
// of an entry or an exit as a share of its price.
func (w *WireState) Outcome(t *testing.T, cost float64) backtest.Outcome {
	t.Helper()
	closed, err := time.Parse(signal.TimeLayout, *w.ClosedAt)
	if err != nil {
		t.Fatal(err)
	}
	risk := *w.Entry - *w.Stop
	if w.Direction == "short" {
		risk = -risk
	}
	return backtest.Outcome{
		At:         closed.UnixMilli(),
		R:          *w.R,
		Cost:       cost * (*w.Entry + *w.Exit) / risk,
		Confidence: w.Initial,
		Minutes:    int64(*w.Minutes),
		MFE:        *w.MFE,
		MAE:        *w.MAE,
		Reason:     signal.CloseReason(*w.Reason),
	}
}

// WireWeather is a Weather signal as it is answered.
type WireWeather struct {
	ID         string  `json:"signal_id"`
	Type       string  `json:"type"`
	Commodity  string  `json:"commodity"`
	Region     string  `json:"region"`
	Direction  string  `json:"direction"`
	Confidence float64 `json:"confidence"`
	Initial    float64 `json:"initial_confidence"`
	Event      struct {
		Type, Severity, Location string
		ForecastDate             string  `json:"forecast_date"`
		Deviation                float64 `json:"temperature_deviation"`
	} `json:"weather_event"`
	Impact    string `json:"expected_impact"`
	CreatedAt string `json:"created_at"`
}

type weatherPage struct {
	Signals []WireWeather
	Total   int
}

// Weather returns a page of weather signals.
func (c *Client) Weather(query string) weatherPage {
	c.TB.Helper()
	return Decode[weatherPage](c.TB, c.Get("/v1/signals/weather"+query).Ok(c.TB).Body)
}
