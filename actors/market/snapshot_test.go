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

// sessionBars returns the bars of a timeframe in the sessions of the exchange from one day to
// another, without those whose open time begins with a text in missing.
func sessionBars(t *testing.T, frame int, from, to string, missing ...string) []marketdata.Bar {
	t.Helper()
	var bars []marketdata.Bar
	step := prices.FrameMS[frame]
	end := markettest.Instant(t, to+"T00:00:00Z").UnixMilli()
	for open := markettest.Instant(t, from+"T00:00:00Z").UnixMilli(); open < end; open += step {
		text := prices.Time(open).Format(time.RFC3339)
		isMissing := slices.ContainsFunc(missing, func(m string) bool { return strings.HasPrefix(text, m) })
		if opens, _ := sessions.Exchange.Span(prices.Time(open)); opens.UnixMilli() < open+step && !isMissing {
			bars = append(bars, markettest.FlatBar(open, step, 1))
		}
	}
	return bars
}

func TestGapsInSessions(t *testing.T) {
	t.Parallel()
	stock := &marketdata.Asset{Source: "alpaca", Class: assets.Stock}
	type list []string
	none := list{}
	for name, c := range map[string]struct {
		frame    int
		from, to string
		missing  list
		filled   list // when the filled bars open; nil: the bars are refused
	}{
		"none, over weekend and holiday": {prices.M5, "2026-11-20", "2026-12-02", nil, none},
		"two in a session": {prices.M1, "2026-11-20", "2026-11-24", list{"2026-11-20T16:00", "2026-11-20T16:01"},
			list{"2026-11-20T16:00", "2026-11-20T16:01"}},
		"four in a row": {prices.M1, "2026-11-20", "2026-11-24",
			list{"2026-11-20T16:00", "2026-11-20T16:01", "2026-11-20T16:02", "2026-11-20T16:03"}, nil},
		"after the opening": {prices.M5, "2026-11-20", "2026-11-24", list{"2026-11-23T14:30", "2026-11-23T14:35"},
			list{"2026-11-23T14:30", "2026-11-23T14:35"}},
		"at the close":    {prices.M5, "2026-11-20", "2026-11-24", list{"2026-11-20T20:55"}, list{"2026-11-20T20:55"}},
		"opening hour":    {prices.H1, "2026-10-20", "2026-11-24", list{"2026-11-23T14"}, list{"2026-11-23T14:00"}},
		"in summer":       {prices.H1, "2026-10-01", "2026-11-10", list{"2026-10-15T13"}, list{"2026-10-15T13:00"}},
		"on a short day":  {prices.H1, "2026-11-01", "2026-12-02", list{"2026-11-27T17"}, list{"2026-11-27T17:00"}},
		"unknown holiday": {prices.H1, "2026-11-01", "2026-12-02", list{"2026-11-12"}, none},
		"all but the opening": {prices.H1, "2026-11-01", "2026-12-02", list{"2026-11-12T15", "2026-11-12T16",
			"2026-11-12T17", "2026-11-12T18", "2026-11-12T19", "2026-11-12T20"}, nil},
		"two unknown holidays": {prices.M5, "2026-11-09", "2026-11-14", list{"2026-11-11", "2026-11-12"}, none},
		"a day among days":     {prices.D1, "2026-08-01", "2026-12-02", list{"2026-11-12"}, list{"2026-11-12T00:00"}},
		"more than 2 %":        {prices.H1, "2026-11-09", "2026-11-14", list{"2026-11-10T16", "2026-11-11T16"}, nil},
	} {
		bars := sessionBars(t, c.frame, c.from, c.to, c.missing...)
		got, err := usable(bars, stock, c.frame)
		if c.filled == nil {
			if e := markettest.RunError(t, err); e.Code != signal.DataUnavailable || !e.Retryable {
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
