package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

func (t *trader) must(tb testing.TB, r signal.RunRequest) evaluation {
	tb.Helper()
	c, err := t.Evaluate(tb.Context(), &r)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestTradingEvaluation(t *testing.T) {
	for _, name := range []string{"momentum", "mean_reversion", "breakout"} {
		for _, risk := range signal.RiskLevels {
			t.Run(name+" "+string(risk), func(t *testing.T) {
				seen := history()
				tr := newTrader(at(&seen), time.Now, noCost)
				r := request("btc")
				r.Strategy, r.Risk = name, risk
				c := tr.must(t, r)

				// The same by hand, from the bars alone.
				series := strategy.NewSeries(signal.H1).WithTick(0.001)
				must(t, series.Sync(seen.Bars))
				a, err := series.Assess(name, risk)
				if err != nil {
					t.Fatal(err)
				}
				levels, err := a.Levels(seen.Last.Price, 0.001)
				if err != nil {
					t.Fatal(err)
				}
				want := evaluation{Direction: a.Direction, Confidence: a.Confidence, Levels: &levels,
					Lifetime: strategy.Lifetime(signal.H1, risk, 60)}
				got := c
				got.Metadata = nil
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error("evaluation (-want +got):\n" + diff)
				}
				var metadata struct {
					Indicators  []string `json:"indicators"`
					Reasoning   string   `json:"reasoning"`
					Source      string   `json:"source"`
					Compression float64  `json:"time_compression"`
				}
				must(t, json.Unmarshal(c.Metadata, &metadata))
				if len(metadata.Indicators) == 0 || metadata.Reasoning == "" || metadata.Source != "simulated" ||
					metadata.Compression != 60 {
					t.Errorf("metadata is %s", c.Metadata)
				}
			})
		}
	}
}

// TestLifetimesCountInSessions checks that a lifetime counts only while the asset is traded.
func TestLifetimesCountInSessions(t *testing.T) {
	t.Parallel()
	friday := time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)
	seen := history()
	seen.Session, seen.Compression = sessions.Exchange, 1
	b := newTrader(at(&seen), func() time.Time { return friday }, noCost)
	req := request("AAPL")
	got, err := b.Evaluate(t.Context(), &req)
	if want := time.Date(2026, 11, 25, 20, 30, 0, 0, time.UTC); err != nil || !friday.Add(got.Lifetime).Equal(want) {
		t.Errorf("it lives until %s, want %s (%v)", friday.Add(got.Lifetime), want, err)
	}
}

// TestSeriesFollowTheMarket checks that after any change of the bars the evaluation equals
// that of a new series.
func TestSeriesFollowTheMarket(t *testing.T) {
	all := testBars(1520)
	seen := history()
	seen.Bars = all[:1000]
	tr := newTrader(at(&seen), time.Now, noCost)
	r := request("BTC")
	check := func(what string) {
		t.Helper()
		seen.Last.Price = seen.Bars[len(seen.Bars)-1].Close
		got := tr.must(t, r)
		fresh := newTrader(at(&seen), time.Now, noCost).must(t, r)
		if diff := cmp.Diff(fresh, got); diff != "" {
			t.Errorf("%s (-fresh +kept):\n%s", what, diff)
		}
	}
	check("at first")
	check("again")
	seen.Bars = all[:1001]
	check("a new bar")
	seen.Bars = all[:1010]
	check("ten new bars")

	replaced := slices.Clone(all[:1010])
	replaced[1009].Close *= 1.01
	replaced[1009].High *= 1.02
	seen.Bars = replaced
	check("the last bar was replaced")

	replaced = slices.Clone(replaced)
	for i := 900; i < 950; i++ {
		replaced[i].Close *= 0.97
		replaced[i].Low *= 0.96
	}
	seen.Bars = replaced
	check("older bars were replaced")

	seen.Asset.TickSize = 0.5
	check("another tick size")

	seen.Bars = all[1515:1520]
	if _, err := tr.Evaluate(t.Context(), &r); codeOf(err) != signal.InsufficientHistory {
		t.Errorf("with five bars: %v, want INSUFFICIENT_HISTORY", err)
	}
	seen.Bars = all[500:1520]
	check("a gap of the history was filled")
}

// keyOf returns the key of the 1h series of BTC.
func keyOf(seen *market.Snapshot) seriesKey {
	return seriesKey{"BTC", signal.H1, seen.Source, seen.Compression}
}

// TestOlderSnapshot checks that a run with an older snapshot does not change the series.
func TestOlderSnapshot(t *testing.T) {
	all := testBars(1010)
	seen := history()
	seen.Bars = all
	tr := newTrader(at(&seen), time.Now, noCost)
	r := request("BTC")
	want := tr.must(t, r)
	kept := tr.series(keyOf(&seen)).series
	seen.Bars = all[:1009]
	got := tr.must(t, r)
	if tr.series(keyOf(&seen)).series != kept || kept.Last() != all[1009] {
		t.Error("the series was turned back")
	}
	if got.Direction != want.Direction || got.Confidence != want.Confidence {
		t.Errorf("evaluated %+v, want %+v", got, want)
	}
}

// TestBarsOfAnotherSourceAreNotOutdated checks that a source in real time is not taken
// for an outdated one after bars of compressed time, whose times are later.
func TestBarsOfAnotherSourceAreNotOutdated(t *testing.T) {
	seen := history()
	tr := newTrader(at(&seen), time.Now, noCost)
	r := request("BTC")
	tr.must(t, r)
	seen.Source, seen.Compression = "stream", 1
	seen.Bars = slices.Clone(seen.Bars[:700])
	got := tr.must(t, r)
	want := newTrader(at(&seen), time.Now, noCost).must(t, r)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("evaluation after a change of source (-alone +after):\n" + diff)
	}
}

func TestBadBars(t *testing.T) {
	seen := history()
	seen.Bars = testBars(1000)
	seen.Bars[999].High = seen.Bars[999].Low / 2
	tr := newTrader(at(&seen), time.Now, noCost)
	r := request("BTC")
	if _, err := tr.Evaluate(t.Context(), &r); codeOf(err) != signal.DataUnavailable {
		t.Errorf("got %v, want DATA_UNAVAILABLE", err)
	}
	seen.Bars = testBars(1000)
	tr.must(t, r) // recovers
}

// TestEvaluationsOfAnotherState checks that a run with an assessment of earlier bars neither
// uses the evaluations of newer bars nor adds its own to them.
func TestEvaluationsOfAnotherState(t *testing.T) {
	seen := history()
	tr := newTrader(at(&seen), time.Now, noCost)
	r := request("BTC")
	newest := tr.must(t, r)
	k := tr.series(keyOf(&seen))
	a, err := k.series.Assess(r.Strategy, r.Risk)
	if err != nil {
		t.Fatal(err)
	}
	a.Confidence = 0.1234 // as with earlier bars
	got, err := tr.once(k, &r, &seen, a, k.state-1)
	if err != nil || got.Confidence != a.Confidence {
		t.Errorf("evaluated %v, %v, want its own %v", got.Confidence, err, a.Confidence)
	}
	if again := tr.must(t, r); again.Confidence != newest.Confidence {
		t.Errorf("the newest bars give %v, want %v", again.Confidence, newest.Confidence)
	}
}

func TestSpellingsShareASeries(t *testing.T) {
	seen := history()
	tr := newTrader(at(&seen), time.Now, noCost)
	var metadata []string
	for _, name := range []string{"BTC", "btc", "BTCUSDT"} {
		c := tr.must(t, request(name))
		metadata = append(metadata, string(c.Metadata))
	}
	if len(tr.kept) != 1 {
		t.Errorf("%d series are kept, want 1", len(tr.kept))
	}
	slices.Sort(metadata)
	if n := len(slices.Compact(metadata)); n != 3 {
		t.Errorf("%d different texts for three spellings", n)
	}
}

func TestSeriesAreBounded(t *testing.T) {
	seen := history()
	tr := newTrader(at(&seen), time.Now, noCost)
	tr.limit = 3
	for i := range 10 {
		seen.Asset.Symbol = fmt.Sprint("A", i)
		tr.must(t, request("x"))
		seen.Asset.Symbol = "BTC"
		tr.must(t, request("x"))
	}
	if len(tr.kept) != 3 {
		t.Errorf("%d series are kept, want 3", len(tr.kept))
	}
	for _, symbol := range []string{"BTC", "A9", "A8"} {
		if tr.kept[seriesKey{symbol, signal.H1, seen.Source, seen.Compression}] == nil {
			t.Errorf("the series of %s, used lately, was dropped", symbol)
		}
	}
	k := tr.series(keyOf(&seen))
	for i := range 3 * maxEvaluations {
		seen.Last.Price = 60000 + float64(i)
		tr.must(t, request("x"))
	}
	if n := len(k.evaluations); n > maxEvaluations {
		t.Errorf("%d evaluations are kept, want at most %d", n, maxEvaluations)
	}
}

func TestSentiment(t *testing.T) {
	seen := history()
	m := at(&seen)
	last := seen.Bars[len(seen.Bars)-1].CloseTime
	now := func() time.Time { return time.UnixMilli(last + 1000) }
	var asked int64
	m.news = func(_ string, since int64) ([]strategy.NewsItem, error) {
		asked = since
		var items []strategy.NewsItem
		for i, text := range []string{"Bitcoin surges to record high", "Analysts upgrade Bitcoin miners",
			"Bitcoin beats expectations again"} {
			items = append(items, strategy.NewsItem{ID: fmt.Sprint(i), At: last - int64(i)*60_000, Headline: text,
				Symbols: []string{"BTC"}})
		}
		return items, nil
	}
	tr := newTrader(m, now, noCost)
	r := request("BTC")
	r.Strategy = strategy.Sentiment
	c := tr.must(t, r)
	if c.Direction != signal.Long || c.Levels == nil {
		t.Errorf("evaluated %+v from good news", c)
	}
	if want := seen.Bars[500].OpenTime - 7*24*3_600_000/60; asked != want {
		t.Errorf("asked for news since %d, want %d", asked, want)
	}
	m.news = func(string, int64) ([]strategy.NewsItem, error) {
		return nil, &signal.RunError{Code: signal.DataUnavailable}
	}
	if _, err := tr.Evaluate(t.Context(), &r); codeOf(err) != signal.DataUnavailable {
		t.Errorf("got %v, want the market's error", err)
	}
}

func TestMarketErrorsPass(t *testing.T) {
	cause := &signal.RunError{Code: signal.StaleData, Message: "old", Retryable: true}
	tr := newTrader(failing(cause), time.Now, noCost)
	r := request("BTC")
	if _, err := tr.Evaluate(t.Context(), &r); !errors.Is(err, cause) {
		t.Errorf("got %v, want the market's error", err)
	}
}

// TestConcurrentRuns checks that every evaluation of a moving market belongs to one of its
// states. Run it with -race.
func TestConcurrentRuns(t *testing.T) {
	all := testBars(1100)
	var mu sync.Mutex
	n := 1000
	m := &fakeMarket{series: seriesFunc(func() (market.Snapshot, error) {
		mu.Lock()
		defer mu.Unlock()
		if n < len(all) {
			n++
		}
		s := history()
		s.Bars = all[:n]
		s.Last.Price = all[n-1].Close
		return s, nil
	})}
	tr := newTrader(m, time.Now, noCost)
	var runs sync.WaitGroup
	for i := range 8 {
		runs.Go(func() {
			for range 50 {
				r := request("BTC")
				r.Strategy = []string{"momentum", "breakout"}[i%2]
				c, err := tr.Evaluate(t.Context(), &r)
				if err != nil {
					t.Error(err)
					return
				}
				if !strategy.Ordered(c.Direction, *c.Levels) {
					t.Errorf("levels %+v for %s", *c.Levels, c.Direction)
				}
			}
		})
	}
	runs.Wait()
	seen := history()
	seen.Bars = all
	seen.Last.Price = all[len(all)-1].Close
	tr.market = at(&seen)
	want := newTrader(at(&seen), time.Now, noCost).must(t, request("BTC"))
	got := tr.must(t, request("BTC"))
	if got.Direction != want.Direction || got.Confidence != want.Confidence || *got.Levels != *want.Levels {
		t.Errorf("in the end evaluated %+v, want %+v", got, want)
	}
}

func noCost(string) float64 { return 0 }
