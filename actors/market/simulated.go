package market

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

// simulatedName is the name of the simulated market as a source.
const simulatedName = "simulated"

const (
	// maxSpeed lets an hour pass in a second. Beyond it bars of 1m would be shorter
	// than the clock can tell.
	maxSpeed = 3600
	// fullTickSpeed is the speed up to which every point of a path is a tick: 10 a
	// second.
	fullTickSpeed = 60
	// tickWindow is how much of a gap, in milliseconds, is made up in ticks; older
	// prices are in bars only.
	tickWindow = 60_000
	// maxAhead is by how many milliseconds a clock may go back without the market
	// beginning anew; it waits until then.
	maxAhead = 60_000
	// parallelSteps is from how much work on assets are computed side by side.
	parallelSteps = 5_000
)

// simulated is the deterministic market of domain.md, section 7: what it yields
// depends on seed, start and clock only, not on how often it is asked.
type simulated struct {
	grid   prices.Grid
	seed   uint64
	known  []*assets.Spec
	start  int64 // wall time at which it was begun
	at     int64 // market time that all paths have reached
	assets []*simulatedAsset
	// weather returns the anomaly by which the weather moves the price of a commodity at a
	// time; it is the same whenever it is asked. Nil: there is no weather.
	weather func(symbol string, at time.Time) float64
}

// newSimulated returns a market of the assets given, at 1 to maxSpeed times real
// time. seed is for a market without checkpoint.
func newSimulated(speed int64, seed uint64, assets []*assets.Spec) *simulated {
	return &simulated{grid: prices.Grid{Speed: speed}, seed: seed, known: assets}
}

func (s *simulated) Name() string { return simulatedName }

// Assets implements source.
func (s *simulated) Assets() []marketdata.Asset {
	records := make([]marketdata.Asset, 0, len(s.known))
	for _, k := range s.known {
		records = append(records, marketdata.Asset{Symbol: k.Symbol, Class: k.Class, Source: simulatedName,
			TickSize: strategy.TickSize(k.Price), AlwaysOpen: true, Speed: s.grid.Speed})
	}
	return records
}

// Open implements source: it goes on from the checkpoint, or begins a market with
// a history that ends now. A checkpoint of another speed, or of other assets, is of
// no use: its times would not fit. Nor is one that lies in the future.
func (s *simulated) Open(ctx context.Context, checkpoint []byte, published, now int64) output {
	var reset [prices.Timeframes]bool
	to := s.grid.Reached(now, minuteStep)
	p := planFor(to)
	if !s.restore(checkpoint) || s.grid.Wall(s.at) > now+maxAhead {
		s.begin(p, now)
		reset, published = [prices.Timeframes]bool{true, true, true, true}, now
	}
	s.watchWeather()
	if s.at < p.days-(longestGap-historyBars)*prices.FrameMS[prices.D1] {
		s.at = p.days
		for _, a := range s.assets {
			a.bars.part = [prices.Timeframes]marketdata.Bar{}
		}
		reset[prices.D1] = true
	}
	for _, a := range s.assets {
		a.news.skipTo(to - newsFor)
	}
	// Where a finer timeframe was left out on the way, its bars begin anew.
	reset[prices.H1] = reset[prices.H1] || s.at < p.hours
	reset[prices.M5] = reset[prices.M5] || s.at < p.fives
	reset[prices.M1] = reset[prices.M1] || s.at < p.minutes

	yields := s.run(ctx, to, p, max(published, now-tickWindow))
	o := s.collect(yields)
	if 0 < published && published < now-tickWindow {
		sayMissed(o.Ticks, published)
	}
	for i, y := range yields {
		for frame, bars := range y.bars {
			if len(bars) > 0 || reset[frame] {
				o.Fill = append(o.Fill, s.series(s.assets[i], frame, bars, reset[frame]))
			}
		}
	}
	return o
}

// sayMissed has the first tick of each asset say since when ticks are missing.
func sayMissed(ticks []marketdata.AssetTick, since int64) {
	said := map[string]bool{}
	for i := range ticks {
		if t := &ticks[i]; !said[t.Asset] {
			said[t.Asset], t.Missed = true, since
		}
	}
}

// watchWeather lets the weather move the prices of commodities from the market's start
// on; its history was made without.
func (s *simulated) watchWeather() {
	for _, a := range s.assets {
		if s.weather != nil && a.k.Class == assets.Commodity {
			a.weather = func(at time.Time) float64 { return s.weather(a.k.Symbol, at) }
			a.since = s.start * s.grid.Speed
		}
	}
}

// begin starts every path at the beginning of history.
func (s *simulated) begin(p plan, now int64) {
	s.start, s.at = now, p.days
	s.assets = make([]*simulatedAsset, 0, len(s.known))
	for _, k := range s.known {
		s.assets = append(s.assets, &simulatedAsset{k: k, path: newPath(s.seed, k), bars: assembler{grid: s.grid, finest: prices.D1},
			news: newNewswire(s.seed, k, p.days)})
	}
}

// Advance implements source.
func (s *simulated) Advance(now int64) output {
	to := s.grid.Reached(now, minuteStep)
	if to <= s.at {
		return output{}
	}
	// The plan is that of a path that is not behind, whatever the gap: a gap too long
	// for that ends the feeder's term before it comes here.
	yields := s.run(context.Background(), to, plan{}, now-tickWindow)
	o := s.collect(yields)
	for i, y := range yields {
		for frame, bars := range y.bars {
			for _, b := range bars {
				o.Closed = append(o.Closed, marketdata.AssetBar{Asset: s.assets[i].k.Symbol, Timeframe: signal.Timeframes[frame], Bar: b})
			}
		}
	}
	// By time, finer ones first.
	slices.SortStableFunc(o.Closed, func(a, b marketdata.AssetBar) int { return cmp.Compare(a.CloseTime, b.CloseTime) })
	return o
}

// Next implements source.
func (s *simulated) Next() int64 {
	thin := s.thin() * minuteStep
	return s.grid.Wall(s.at - s.at%thin + thin)
}

// thin is how many points of a path lie between two ticks.
func (s *simulated) thin() int64 { return (s.grid.Speed + fullTickSpeed - 1) / fullTickSpeed }

// run moves all paths to the market time to, unless ctx ends before that.
func (s *simulated) run(ctx context.Context, to int64, p plan, since int64) []yield {
	yields := make([]yield, len(s.assets))
	one := func(i int) { yields[i] = s.assets[i].run(ctx, s.at, to, p, since, s.thin()) }
	if (to-s.at)/minuteStep*int64(len(s.assets)) < parallelSteps {
		for i := range s.assets {
			one(i)
		}
	} else {
		var group sync.WaitGroup
		var panicked atomic.Pointer[any] // it goes on in this goroutine, whose caller recovers
		work := make(chan int)
		for range runtime.GOMAXPROCS(0) {
			group.Go(func() {
				for i := range work {
					recovering(&panicked, func() { one(i) })
				}
			})
		}
		for i := range s.assets {
			if ctx.Err() != nil {
				break
			}
			work <- i
		}
		close(work)
		group.Wait()
		if reason := panicked.Load(); reason != nil {
			panic(*reason)
		}
	}
	s.at = max(s.at, to)
	return yields
}

// recovering calls f and stores what it panics with.
func recovering(reason *atomic.Pointer[any], f func()) {
	defer func() {
		if r := recover(); r != nil {
			reason.Store(&r)
		}
	}()
	f()
}

// collect gathers ticks, news and last prices, by time.
func (s *simulated) collect(yields []yield) output {
	var o output
	for i, y := range yields {
		o.Ticks = append(o.Ticks, y.ticks...)
		o.News = append(o.News, y.news...)
		o.Live = append(o.Live, marketdata.Live{Asset: s.assets[i].k.Symbol, Last: s.assets[i].last})
	}
	slices.SortStableFunc(o.Ticks, func(a, b marketdata.AssetTick) int { return cmp.Compare(a.Time, b.Time) })
	slices.SortStableFunc(o.News, func(a, b marketdata.NewsItem) int { return cmp.Compare(a.At, b.At) })
	return o
}

func (s *simulated) series(a *simulatedAsset, frame int, bars []marketdata.Bar, reset bool) marketdata.Series {
	series := marketdata.Series{Asset: a.k.Symbol, Timeframe: signal.Timeframes[frame], Reset: reset,
		Bars: make([]marketdata.AssetBar, 0, len(bars))}
	for _, b := range bars {
		series.Bars = append(series.Bars, marketdata.AssetBar{Asset: series.Asset, Timeframe: series.Timeframe, Bar: b})
	}
	return series
}
