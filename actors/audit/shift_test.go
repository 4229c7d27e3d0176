package audit

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// stock fakes a store: bars of one asset without trades, and signals.
type stock struct {
	tf      signal.Timeframe
	bars    []marketdata.Bar
	signals []*signal.Signal
}

func (s *stock) EachSignal(_ context.Context, _ int, f func(*signal.Signal) error) error {
	for _, x := range s.signals {
		y := *x
		if err := f(&y); err != nil {
			return err
		}
	}
	return nil
}

func (s *stock) Asset(context.Context, string) (marketdata.Asset, marketdata.Live, error) {
	return marketdata.Asset{Symbol: "WALK", Class: "crypto", Source: "stream", TickSize: .00001, Speed: 1},
		marketdata.Live{}, nil
}

func (s *stock) Bars(_ context.Context, asset string, tf signal.Timeframe) ([]marketdata.AssetBar, int64, error) {
	if tf != s.tf {
		return nil, 0, nil
	}
	bars := make([]marketdata.AssetBar, len(s.bars))
	for i, b := range s.bars {
		bars[i] = marketdata.AssetBar{Asset: asset, Timeframe: tf, Bar: b}
	}
	return bars, 0, nil
}

func (s *stock) All(context.Context, signal.Timeframe) ([]marketdata.AssetOutcome, bool, error) {
	return nil, true, nil
}

func (s *stock) sources() Sources {
	return Sources{Signals: s, Prices: s, Outcomes: s, Costs: backtest.DefaultCosts}
}

// newStock returns newStockOf of hours.
func newStock(t testing.TB) *stock {
	t.Helper()
	return newStockOf(t, signal.H1)
}

// newStockOf returns the closed signals of a backtest as live signals, with their bars.
func newStockOf(t testing.TB, tf signal.Timeframe) *stock {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 3))
	s := &stock{tf: tf}
	step := tf.Duration().Milliseconds()
	price := 100.0
	for i := range 1400 {
		open := int64(495_000+i) * step
		b := marketdata.Bar{OpenTime: open, CloseTime: open + step, Open: round2(price), Volume: 5}
		b.High, b.Low = b.Open, b.Open
		for range 5 {
			price *= math.Exp(.003 * r.NormFloat64())
			b.High, b.Low = max(b.High, round2(price)), min(b.Low, round2(price))
		}
		b.Close = round2(price)
		s.bars = append(s.bars, b)
	}
	for _, name := range []string{strategy.Momentum, strategy.MeanReversion} {
		o := backtest.Options{Strategy: name, Timeframe: tf, Risk: signal.MediumRisk,
			Origin: strategy.Origin{Asset: "walk", Tick: .00001, Source: "stream", Compression: 1, Cost: .001},
			From:   s.bars[1010].CloseTime, Metadata: true}
		found, err := backtest.Run(t.Context(), s.bars, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range found.Trades {
			if x := &found.Trades[i]; !x.Open() {
				s.signals = append(s.signals, live(x, o))
			}
		}
	}
	if len(s.signals) < 20 {
		t.Fatalf("only %d signals", len(s.signals))
	}
	return s
}

func round2(x float64) float64 { return math.Round(x*100) / 100 }

// live returns a trade of a backtest as a signal that was stored.
func live(x *backtest.Trade, o backtest.Options) *signal.Signal {
	levels := x.Levels
	created := time.UnixMilli(x.CreatedAt + 137).UTC()
	s := &signal.Signal{
		ID:              signal.NewSignalID(),
		Account:         "acc_1",
		Agent:           "trading",
		Asset:           "walk",
		Strategy:        o.Strategy,
		Timeframe:       o.Timeframe,
		Risk:            o.Risk,
		Direction:       x.Direction,
		Confidence:      x.Confidence,
		FirstConfidence: x.Confidence,
		Levels:          &levels,
		Metadata:        x.Metadata,
		CreatedAt:       created,
		ExpiresAt:       created.Add(x.Lifetime),
	}
	s.MFE, s.MAE = x.Excursion.Best, x.Excursion.Worst
	c := strategy.Close(s, x.Exit, time.UnixMilli(x.ClosedAt).UTC())
	s.Closing = &c
	return s
}

func auditOf(t *testing.T, s *stock) *Report {
	t.Helper()
	r, _, err := Run(t.Context(), s.sources(), Options{Partitions: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestASystematicShiftIsNamed(t *testing.T) {
	t.Parallel()
	s := newStock(t)
	before := auditOf(t, s)
	if before.systematic() != 0 || before.Recomputed != len(s.signals) || len(before.Shifts) == 0 {
		t.Fatalf("untouched: %+v", before)
	}
	for _, x := range s.signals {
		x.FirstConfidence += .0019
	}
	r := auditOf(t, s)
	var out strings.Builder
	r.Print(&out)
	for i := range r.Differing {
		for _, d := range r.Differing[i].Differences {
			if d.Member == "confidence" {
				t.Errorf("one by one: %+v", d)
			}
		}
	}
	if !strings.Contains(out.String(), "systematic shift of confidence: by +0.0019") || r.Differences() == 0 {
		t.Errorf("printed %s", out.String())
	}
	for i, x := range s.signals { // as much up as down
		x.FirstConfidence -= .0019 * float64(1+i%2*2-1)
	}
	if r := auditOf(t, s); r.systematic() != 0 {
		t.Errorf("noise: %+v", r.Shifts)
	}
}

func TestOldSignalsBeyondTheLimitAreCounted(t *testing.T) {
	t.Parallel()
	s := newStock(t)
	r, accounts, err := Run(t.Context(), s.sources(), Options{Partitions: []int{0}, MaxSignals: 5})
	if err != nil || r.Signals != len(s.signals) || r.Recomputed != 5 ||
		r.NotRecomputed[reasonMany] != len(s.signals)-5 {
		t.Errorf("%+v %v", r, err)
	}
	if a := accounts["acc_1"]; a.Signals != r.Signals {
		t.Errorf("the account has %+v", a)
	}
}

// partitioned is a stock whose signals are in partitions.
type partitioned struct {
	*stock
	in map[int][]*signal.Signal
}

func (p partitioned) EachSignal(ctx context.Context, partition int, f func(*signal.Signal) error) error {
	return (&stock{signals: p.in[partition]}).EachSignal(ctx, partition, f)
}

func TestTheLimitIsOfAllPartitionsTogether(t *testing.T) {
	t.Parallel()
	s := newStock(t)
	p := partitioned{s, map[int][]*signal.Signal{}}
	for i, x := range s.signals {
		x.FirstConfidence += .05 * float64(i%2*2-1) // what is recomputed differs
		x.CreatedAt = x.CreatedAt.Add(time.Duration(i) * time.Millisecond)
		of := 9
		switch {
		case i%7 == 0:
			of = 2
		case i%5 == 0:
			of = 15
		}
		p.in[of] = append(p.in[of], x)
	}
	slices.SortFunc(s.signals, func(a, b *signal.Signal) int { return b.CreatedAt.Compare(a.CreatedAt) })
	from, o := s.sources(), Options{}
	from.Signals = p
	for i := range 16 {
		o.Partitions = append(o.Partitions, i)
	}
	for _, o.MaxSignals = range []int{1, 5, len(s.signals) - 1, len(s.signals), 0} {
		want := map[signal.SignalID]bool{}
		for _, x := range s.signals[:cmp.Or(o.MaxSignals, len(s.signals))] {
			want[x.ID] = true
		}
		r, _, err := Run(t.Context(), from, o)
		if err != nil || r.Signals != len(s.signals) || r.Recomputed != len(want) ||
			r.NotRecomputed[reasonMany] != len(s.signals)-len(want) {
			t.Errorf("at most %d: %d recomputed of %d, %v, %v", o.MaxSignals, r.Recomputed, r.Signals, r.NotRecomputed, err)
		}
		for _, d := range r.Differing {
			if !want[d.ID] {
				t.Errorf("at most %d: took that of %s", o.MaxSignals, d.CreatedAt)
			}
			delete(want, d.ID)
		}
		if len(want) > 0 {
			t.Errorf("at most %d: %d of the newest are left out", o.MaxSignals, len(want))
		}
	}
}

func TestWhatIsSystematic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what            string
		n               int
		share, variance float64
		want            bool
	}{
		{"too few", 9, .95, 0, false},
		{"enough", 10, .95, 0, true},
		{"below a tenth", 1000, .09, 0, false},
		{"above a tenth", 1000, -.11, 0, true},
		{"within tolerance/sqrt(n)", 25, .19, 0, false},
		{"two standard errors", 136, .16, .86, false},
		{"five standard errors", 1000, .16, .86, true},
	} {
		r, n := newReport(), float64(c.n)
		r.sum("confidence", &moments{c.n, 0, n * c.share, n * (c.share*c.share + c.variance)})
		if r.judge(); r.Shifts[0].Systematic != c.want {
			t.Errorf("%s: %+v", c.what, r.Shifts[0])
		}
	}
}
