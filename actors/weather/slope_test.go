package weather

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// drawn returns n outcomes, one per bar, of a market with the given τ.
func drawn(seed uint64, tau float64, n int) []outcome {
	rng := rand.New(rand.NewPCG(seed, 2))
	list := make([]outcome, n)
	for i := range list {
		o := &list[i]
		o.prior, o.likelihood, o.bar = .35+.1*rng.Float64(), .5+.5*rng.Float64(), int64(i)
		logit := math.Log(o.prior/(1-o.prior)) + tau*(o.likelihood-.5)/(o.prior*(1-o.prior))
		o.won = rng.Float64() < 1/(1+math.Exp(-logit))
	}
	return list
}

// TestSlopeIsFound fits outcomes of a known τ, from a prior distribution around assumedTau.
func TestSlopeIsFound(t *testing.T) {
	t.Parallel()
	for _, want := range []float64{0, assumedTau, .1, .25, .6} {
		list := drawn(1, want, 20_000)
		got := fitSlope(list)
		if math.Abs(got-want) > .03 {
			t.Errorf("τ is %v, want %v", got, want)
		}
		slices.Reverse(list)
		if again := fitSlope(list); again != got {
			t.Errorf("the other way round τ is %v, was %v", again, got)
		}
	}
}

// TestErrorOfTheSlope bounds the root mean square error of τ over draws, as it stands in
// deploy/decisions/0036-what-a-weather-signal-claims.md.
func TestErrorOfTheSlope(t *testing.T) {
	t.Parallel()
	const draws = 100
	for _, c := range []struct {
		tau      float64
		outcomes int
		maxError float64
	}{
		{0, fitFrom, .07}, {assumedTau, fitFrom, .07}, {.25, fitFrom, .13},
		{0, 4000, .03}, {assumedTau, 4000, .03}, {.25, 4000, .04},
	} {
		squares := 0.0
		for seed := range uint64(draws) {
			off := fitSlope(drawn(100+seed, c.tau, c.outcomes)) - c.tau
			squares += off * off / draws
		}
		if got := math.Sqrt(squares); got > c.maxError {
			t.Errorf("%d outcomes of τ = %v: the error is %.3f, want at most %v", c.outcomes, c.tau, got, c.maxError)
		}
	}
}

func TestSlopesOfUninformativeOutcomes(t *testing.T) {
	t.Parallel()
	all := func(change func(i int, o *outcome)) []outcome {
		list := drawn(3, .25, 200)
		for i := range list {
			change(i, &list[i])
		}
		return list
	}
	won := all(func(_ int, o *outcome) { o.won = true })
	if got := fitSlope(won); got <= assumedTau || got > maxTau {
		t.Errorf("all have won: τ is %v", got)
	}
	if got := fitSlope(all(func(_ int, o *outcome) { o.won, o.prior = true, .01 })); got != maxTau {
		t.Errorf("all have won against all odds: τ is %v", got)
	}
	if got := fitSlope(all(func(_ int, o *outcome) { o.won = false })); got != 0 {
		t.Errorf("all have lost: τ is %v", got)
	}
	if got := fitSlope(all(func(_ int, o *outcome) { o.likelihood = .5 })); got != assumedTau {
		t.Errorf("forecasts without an opinion: τ is %v", got)
	}
	once := all(func(i int, o *outcome) { o.bar = int64(i) })
	if one, many := fitSlope(once), fitSlope(slices.Concat(once, once)); math.Abs(one-many) > 1e-4 {
		t.Errorf("τ is %v with each outcome twice, %v with each once", many, one)
	}
}

// fakeLog is the signal log of two partitions. An entry's position is its number.
type fakeLog struct {
	mu      sync.Mutex
	entries [2][]*signal.WeatherEntry
	failing error
}

func (l *fakeLog) Partitions() int { return len(l.entries) }

func (l *fakeLog) EachWeatherEntry(_ context.Context, p int, after signal.Position,
	f func(*signal.WeatherEntry)) (signal.Position, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries[p][after.Seq:] {
		f(e)
	}
	return signal.Position{Seq: int64(len(l.entries[p]))}, l.failing
}

func (l *fakeLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing = err
}

// trade adds n signals of natural gas that are created and closed now, all in profit.
func (l *fakeLog) trade(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range n {
		list := l.entries[i%2]
		at := signal.Position{MS: time.Now().UnixMilli(), Seq: int64(len(list))}
		l.entries[i%2] = append(list,
			&signal.WeatherEntry{Position: at, Commodity: "natural_gas", Likelihood: .9, Prior: .4},
			// of another agent
			&signal.WeatherEntry{Position: at.Plus(1), Created: at.Plus(-1), Won: true},
			&signal.WeatherEntry{Position: at.Plus(2), Created: at, Won: true},
			// of quiet weather, which no fit counts
			&signal.WeatherEntry{Position: at.Plus(3), Commodity: "natural_gas", Likelihood: undecided, Prior: .4},
			&signal.WeatherEntry{Position: at.Plus(4), Created: at.Plus(3), Won: true})
	}
}

// TestSlopesFollowTheLog checks that τ is fitted from 200 closed signals on, to those that
// closed before a multiple of six market hours, and that a node that starts later agrees.
func TestSlopesFollowTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const every = fitEvery / 60
		log := &fakeLog{}
		node := func() *Service {
			s := New(newSource(), Options{Records: log, Speed: 60, Retention: 6 * every})
			run(t, s)
			time.Sleep(time.Second)
			return s
		}
		demand := func(s *Service, what string, fitted int) Slope {
			t.Helper()
			r, err := s.Outlook(t.Context(), gas)
			if err != nil || r.Slope.Fitted != fitted || (fitted == 0) != (r.Slope.Tau == assumedTau) {
				t.Fatalf("%s: the slope is %+v, %v", what, r.Slope, err)
			}
			if _, tau, ok := s.Likelihood(gas, signal.Long); !ok || tau != r.Slope.Tau {
				t.Errorf("%s: τ is %v for open signals, %v for new ones", what, tau, r.Slope.Tau)
			}
			return r.Slope
		}
		first := node()
		log.trade(199)
		time.Sleep(every)
		demand(first, "199", 0)
		log.trade(1)
		time.Sleep(every / 6)
		demand(first, "before the next fit", 0)
		time.Sleep(every)
		slope := demand(first, "200", 200)
		time.Sleep(2 * every)
		log.trade(50)
		if later := demand(node(), "a node that starts later", 200); later != slope {
			t.Errorf("a node that starts later has %+v, the first %+v", later, slope)
		}
		time.Sleep(every)
		demand(first, "with those of later", 250)
		time.Sleep(4 * every)
		demand(first, "after the retention of the first", 0)
		if n := len(first.slopes.open); n != 0 {
			t.Errorf("%d are kept as open", n)
		}
	})
}

// TestOutlooksWaitForTheFirstFit checks that no outlook uses τ before it is fitted.
func TestOutlooksWaitForTheFirstFit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{failing: errors.New("away")}
		log.trade(300)
		time.Sleep(fitEvery)
		published := 0
		s := New(newSource(), Options{Records: log, Speed: 60, OnForecast: func(Question) { published++ }})
		run(t, s)
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.Outlook(short, gas); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before the first fit: %v", err)
		}
		if _, _, ok := s.Likelihood(gas, signal.Long); ok {
			t.Error("before the first fit there is a τ")
		}
		log.fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, tau, ok := s.Likelihood(gas, signal.Long); !ok || tau == assumedTau || published != 1 {
			t.Errorf("after the first fit: τ is %v, %d forecasts are published", tau, published)
		}
		if r, err := s.Outlook(t.Context(), gas); err != nil || r.Slope.Fitted != 300 {
			t.Errorf("%+v, %v", r.Slope, err)
		}
	})
}

// TestSlopesAreFittedOnStoredSignals uses runs and closings stored in Redis.
func TestSlopesAreFittedOnStoredSignals(t *testing.T) {
	t.Parallel()
	o := persistence.Options{URL: redistest.New(t).URL(), Partitions: 2, Timeout: time.Minute}
	store, err := persistence.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Client.Close()
	log := eventlog.NewLog(store.Logs, eventlog.LogOptions{})
	defer log.Close(context.Background())
	loss := -1.
	var accounts sync.WaitGroup
	for range 4 {
		accounts.Go(func() {
			account := signal.NewAccountID()
			for range fitFrom / 4 {
				s := signal.Signal{
					ID: signal.NewSignalID(), Account: account, Agent: "weather", Run: signal.NewRunID(), Sequence: 1,
					Asset: "Natural_Gas", Strategy: gas.Strategy, Timeframe: signal.D1, Risk: signal.LowRisk,
					Direction: signal.Long, Confidence: .45, FirstConfidence: .45,
					Levels:   &signal.Levels{Entry: 3, Stop: 2, Target: 4.5},
					Weather:  &signal.Outlook{Commodity: gas.Commodity, Region: gas.Region, Likelihood: .9},
					Metadata: []byte(`{"indicators":["degree_days"],"prior":0.4,"tau":0.02}`),
				}
				_, err := log.Append(t.Context(), signal.Change{Account: account, Signal: &s,
					Events: []signal.Event{{Type: signal.SignalCreated, Asset: s.Asset}}})
				closed := s
				closed.Metadata, closed.Sequence = nil, 2
				closed.Closing = &signal.Closing{Reason: signal.StopLoss, At: time.Now(), PnLAbsolute: &loss}
				_, err2 := log.Append(t.Context(), signal.Change{Account: account, Signal: &closed,
					Events: []signal.Event{{Type: signal.SignalClosed, Asset: s.Asset}}})
				if err != nil || err2 != nil {
					t.Error(err, err2)
				}
			}
		})
	}
	accounts.Wait()
	s := New(newSource(), Options{Records: store.Signals, Speed: 60,
		Now: func() time.Time { return store.Client.Now().Add(fitEvery / 30) }})
	run(t, s)
	if r, err := s.Outlook(t.Context(), gas); err != nil || r.Slope.Fitted != fitFrom || r.Slope.Tau >= assumedTau {
		t.Errorf("%+v, %v", r.Slope, err)
	}
}

func TestOutcomesAreBounded(t *testing.T) {
	t.Parallel()
	s := newSlopes(Options{Records: &fakeLog{}, Now: time.Now})
	now := time.Now()
	at := func(i int) signal.Position { return signal.Position{MS: now.UnixMilli(), Seq: int64(i)} }
	for i := range 2 * maxOutcomes {
		s.take(0, &signal.WeatherEntry{Position: at(2 * i), Commodity: "oil", Likelihood: .9, Prior: .4})
		s.take(1, &signal.WeatherEntry{Position: at(2*i + 1), Created: at(2 * i)}) // of another partition
		s.take(0, &signal.WeatherEntry{Position: at(2*i + 1), Created: at(2 * i), Won: true})
	}
	s.take(0, &signal.WeatherEntry{Position: at(4 * maxOutcomes), Commodity: "oil", Likelihood: .9, Prior: 1})
	if s.fit(now.Add(time.Second)); len(s.closed["oil"]) != maxOutcomes || s.of("oil").Fitted != maxOutcomes ||
		len(s.open) != 0 {
		t.Errorf("%d are kept, %+v", len(s.closed["oil"]), s.of("oil"))
	}
}
