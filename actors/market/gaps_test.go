package market

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/markettest"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// sessionBars returns the bars of a timeframe in the sessions of the exchange from one
// day to another, without those that open at the times in missing, or on the days.
func sessionBars(t *testing.T, frame int, from, to string, missing ...string) []marketdata.Bar {
	t.Helper()
	var bars []marketdata.Bar
	step := prices.FrameMS[frame]
	for open := markettest.Instant(t, from+"T00:00:00Z").UnixMilli(); open < markettest.Instant(t, to+"T00:00:00Z").UnixMilli(); open += step {
		text := prices.Time(open).Format(time.RFC3339)
		opens, _ := sessions.Exchange.Span(prices.Time(open))
		if opens.UnixMilli() < open+step && !slices.ContainsFunc(missing, func(m string) bool { return strings.HasPrefix(text, m) }) {
			bars = append(bars, marketdata.Bar{OpenTime: open, CloseTime: open + step, Open: 1, High: 2, Low: 1, Close: 2})
		}
	}
	return bars
}

func TestGapsInSessions(t *testing.T) {
	t.Parallel()
	stock := &marketdata.Asset{Source: "alpaca", Class: assets.Stock}
	for name, c := range map[string]struct {
		frame    int
		from, to string
		missing  []string
		filled   []string // when the flat bars open
		refused  bool
	}{
		"none, over weekend and holiday": {prices.M5, "2026-11-20", "2026-12-02", nil, nil, false},
		"two in a session":               {prices.M1, "2026-11-20", "2026-11-24", []string{"2026-11-20T16:00", "2026-11-20T16:01"}, []string{"2026-11-20T16:00", "2026-11-20T16:01"}, false},
		"four in a row": {prices.M1, "2026-11-20", "2026-11-24", []string{"2026-11-20T16:00", "2026-11-20T16:01", "2026-11-20T16:02", "2026-11-20T16:03"},
			nil, true},
		"after the opening":         {prices.M5, "2026-11-20", "2026-11-24", []string{"2026-11-23T14:30", "2026-11-23T14:35"}, []string{"2026-11-23T14:30", "2026-11-23T14:35"}, false},
		"before the close":          {prices.M5, "2026-11-20", "2026-11-24", []string{"2026-11-20T20:55"}, []string{"2026-11-20T20:55"}, false},
		"the hour of the opening":   {prices.H1, "2026-10-20", "2026-11-24", []string{"2026-11-23T14"}, []string{"2026-11-23T14:00"}, false},
		"that of the summer":        {prices.H1, "2026-10-01", "2026-11-10", []string{"2026-10-15T13"}, []string{"2026-10-15T13:00"}, false},
		"an hour of a short day":    {prices.H1, "2026-11-01", "2026-12-02", []string{"2026-11-27T17"}, []string{"2026-11-27T17:00"}, false},
		"a day of rest nobody knew": {prices.H1, "2026-11-01", "2026-12-02", []string{"2026-11-12"}, nil, false},
		"only the opening is there": {prices.H1, "2026-11-01", "2026-12-02", []string{"2026-11-12T15", "2026-11-12T16", "2026-11-12T17", "2026-11-12T18",
			"2026-11-12T19", "2026-11-12T20"}, nil, true},
		"two such days":    {prices.M5, "2026-11-09", "2026-11-14", []string{"2026-11-11", "2026-11-12"}, nil, false},
		"a day among days": {prices.D1, "2026-08-01", "2026-12-02", []string{"2026-11-12"}, []string{"2026-11-12T00:00"}, false},
		"more than 2 %":    {prices.H1, "2026-11-09", "2026-11-14", []string{"2026-11-10T16", "2026-11-11T16"}, nil, true},
	} {
		bars := sessionBars(t, c.frame, c.from, c.to, c.missing...)
		got, err := usable(bars, stock, c.frame)
		if c.refused {
			if e := runErrorOf(t, err); e.Code != signal.DataUnavailable || !e.Retryable {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var filled []string
		for i, b := range got {
			if b.Flat {
				filled = append(filled, prices.Time(b.OpenTime).Format("2006-01-02T15:04:05"))
			}
			if i > 0 && b.OpenTime < got[i-1].CloseTime {
				t.Errorf("%s: the bars at %s overlap", name, prices.Time(b.OpenTime))
			}
		}
		if err != nil || len(got) != len(bars)+len(c.filled) || !slices.EqualFunc(filled, c.filled, strings.HasPrefix) {
			t.Errorf("%s: %d of %d bars, filled %v, %v; want %v", name, len(got), len(bars), filled, err, c.filled)
		}
	}
}
