// Package simulated is the deterministic market of the known assets: price paths with regimes and fat
// tails, their bars and ticks, and news that agree with the regime. For one seed, start and clock it
// follows one path, however often it is asked or restored from a checkpoint. It does no I/O.
//
// Where to read: simulated.go (a market and its clock), path.go (the price process and bars), history.go
// (steps that get finer towards the present), newswire.go (news), checkpoint.go.
package simulated

import (
	"cmp"
	"context"
	"fmt"
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

// Name is the name of the simulated market as a source.
const Name = "simulated"

const (
	// maxSpeed runs an hour in a second. At higher speeds bars of 1m would be too short for the clock.
	maxSpeed = 3600
	// FullTickSpeed is the maximum speed at which every point of a path is a tick: 10 a second.
	FullTickSpeed = 60
	// TickWindow is the part of a gap, in milliseconds, that is filled with ticks. Older prices are
	// in bars only.
	TickWindow = 60_000
	// maxAhead is how far the clock may go back, in milliseconds, before the market begins again
	// instead of waiting. Another path of prices would close open signals by prices that are not theirs.
	maxAhead = 15 * 60_000
	// parallelSteps is the number of steps from which paths are computed in parallel.
	parallelSteps = 5_000
)

// CheckSpeed returns an error if the simulated market cannot run at speed.
func CheckSpeed(speed int64) error {
	if speed < 1 || speed > maxSpeed {
		return fmt.Errorf("market.speed is %d: must be 1 to %d", speed, maxSpeed)
	}
	return nil
}

// Output is the output of the simulated market, ordered by time, with finer bars first.
type Output struct {
	// Begun reports that the market began: Fill replaces all series, and no earlier checkpoint continues them.
	Begun  bool
	Ticks  []marketdata.AssetTick
	Closed []marketdata.AssetBar
	Fill   []marketdata.Series
	News   []marketdata.NewsItem
	Live   []marketdata.Live
}

// Market is the deterministic simulated market. It belongs to one goroutine, which calls
// Open, then Advance and Checkpoint as often as it likes. The output depends only on seed, start and clock.
type Market struct {
	grid  prices.Grid
	seed  uint64
	known []*assets.Spec
	start int64 // wall time of the beginning
	at    int64 // market time that all paths have reached
	// published is the wall time up to which ticks and bars had been written before Open.
	published int64
	assets    []*simulatedAsset
	// Weather returns the anomaly that moves the price of a commodity at a time. It must be
	// deterministic, and set before Open. It may be nil.
	Weather func(symbol string, at time.Time) float64
}

// New returns a market of specs at 1 to maxSpeed times real time. seed is for a market without checkpoint.
func New(speed int64, seed uint64, specs []*assets.Spec) *Market {
	return &Market{grid: prices.Grid{Speed: speed}, seed: seed, known: specs}
}

// Assets returns the records of its assets.
func (s *Market) Assets() []marketdata.Asset {
	records := make([]marketdata.Asset, 0, len(s.known))
	for _, k := range s.known {
		records = append(records, marketdata.Asset{
			Symbol: k.Symbol, Class: k.Class, Source: Name,
			TickSize: strategy.TickSize(k.Price), AlwaysOpen: true, Speed: s.grid.Speed,
		})
	}
	return records
}

// Open continues from a checkpoint, perhaps of another process, or begins a market with a history
// that ends now. Fill holds the bars up to now. Ticks up to the time published have been written
// before. Times are in milliseconds. Open ignores a checkpoint of another speed or of other assets,
// and one from the future. If ctx ends, neither the output nor s may be used.
func (s *Market) Open(ctx context.Context, checkpoint []byte, published, now int64) Output {
	var reset [prices.Timeframes]bool
	begun := false
	to := s.grid.Reached(now, minuteStep)
	p := planFor(to)
	if !s.restore(checkpoint) || s.grid.Wall(s.at) > now+maxAhead {
		s.begin(p, now)
		begun = true
		reset, published = [prices.Timeframes]bool{true, true, true, true}, now
	}
	s.published = published
	s.watchWeather()
	if s.at < p.days-(maxGap-HistoryBars)*prices.FrameMS[prices.D1] {
		s.at = p.days
		for _, a := range s.assets {
			a.bars.part = [prices.Timeframes]marketdata.Bar{}
		}
		reset[prices.D1] = true
	}
	for _, a := range s.assets {
		a.news.skipTo(to - NewsFor)
	}
	// The bars of a finer timeframe that was left out on the way begin again.
	reset[prices.H1] = reset[prices.H1] || s.at < p.hours
	reset[prices.M5] = reset[prices.M5] || s.at < p.fives
	reset[prices.M1] = reset[prices.M1] || s.at < p.minutes

	yields := s.run(ctx, to, p, max(published, now-TickWindow))
	o := s.collect(yields)
	o.Begun = begun
	if 0 < published && published < now-TickWindow {
		markMissed(o.Ticks, published)
	}
	for i, y := range yields {
		for frame, bars := range y.bars {
			if len(bars) > 0 || reset[frame] {
				o.Fill = append(o.Fill, s.series(i, frame, bars, reset[frame]))
			}
		}
	}
	return o
}

// markMissed sets Missed in the first tick of each asset.
func markMissed(ticks []marketdata.AssetTick, since int64) {
	marked := map[string]bool{}
	for i := range ticks {
		if t := &ticks[i]; !marked[t.Asset] {
			marked[t.Asset], t.Missed = true, since
		}
	}
}

// watchWeather lets the weather move the prices of commodities after the start of the market.
func (s *Market) watchWeather() {
	for _, a := range s.assets {
		if s.Weather != nil && a.k.Class == assets.Commodity {
			a.weather = func(at time.Time) float64 { return s.Weather(a.k.Symbol, at) }
			a.since = s.start * s.grid.Speed
		}
	}
}

// begin starts every path at the beginning of history.
func (s *Market) begin(p plan, now int64) {
	s.start, s.at = now, p.days
	s.assets = make([]*simulatedAsset, 0, len(s.known))
	for _, k := range s.known {
		s.assets = append(s.assets, &simulatedAsset{
			k: k, path: newPath(s.seed, k), news: newNewswire(s.seed, k, p.days),
			bars: assembler{grid: s.grid, finest: prices.D1},
		})
	}
}

// Advance returns the output since the last call up to now.
func (s *Market) Advance(now int64) Output {
	to := s.grid.Reached(now, minuteStep)
	if to <= s.at {
		return Output{}
	}
	// The steps are the finest ones whatever the gap, because a long gap ends the leadership of the
	// feeder before it comes here.
	yields := s.run(context.Background(), to, plan{}, max(s.published, now-TickWindow))
	o := s.collect(yields)
	for i, y := range yields {
		for frame, bars := range y.bars {
			for _, b := range bars {
				if b.CloseTime > s.published {
					o.Closed = append(o.Closed, s.assetBar(i, frame, b))
				}
			}
		}
	}
	slices.SortStableFunc(o.Closed, func(a, b marketdata.AssetBar) int { return cmp.Compare(a.CloseTime, b.CloseTime) })
	return o
}

// Next returns when Advance will have output.
func (s *Market) Next() int64 {
	thin := s.thin() * minuteStep
	return s.grid.Wall(s.at - s.at%thin + thin)
}

// thin returns how many points of a path there are for each tick.
func (s *Market) thin() int64 { return (s.grid.Speed + FullTickSpeed - 1) / FullTickSpeed }

// run moves all paths to the market time to, unless ctx ends before.
func (s *Market) run(ctx context.Context, to int64, p plan, since int64) []yield {
	yields := make([]yield, len(s.assets))
	one := func(i int) { yields[i] = s.assets[i].run(ctx, s.at, to, p, since, s.thin()) }
	if (to-s.at)/minuteStep*int64(len(s.assets)) < parallelSteps {
		for i := range s.assets {
			one(i)
		}
	} else {
		var group sync.WaitGroup
		var panicked atomic.Pointer[any] // panics again in this goroutine, whose caller recovers
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

// recovering calls f and stores the value of a panic.
func recovering(reason *atomic.Pointer[any], f func()) {
	defer func() {
		if r := recover(); r != nil {
			reason.Store(&r)
		}
	}()
	f()
}

func (s *Market) collect(yields []yield) Output {
	var o Output
	for i, y := range yields {
		o.Ticks = append(o.Ticks, y.ticks...)
		o.News = append(o.News, y.news...)
		o.Live = append(o.Live, marketdata.Live{Asset: s.assets[i].k.Symbol, Last: s.assets[i].last})
	}
	slices.SortStableFunc(o.Ticks, func(a, b marketdata.AssetTick) int { return cmp.Compare(a.Time, b.Time) })
	slices.SortStableFunc(o.News, func(a, b marketdata.NewsItem) int { return cmp.Compare(a.At, b.At) })
	return o
}

func (s *Market) assetBar(i, frame int, b marketdata.Bar) marketdata.AssetBar {
	return marketdata.AssetBar{Asset: s.assets[i].k.Symbol, Timeframe: signal.Timeframes[frame], Bar: b}
}

func (s *Market) series(i, frame int, bars []marketdata.Bar, reset bool) marketdata.Series {
	series := marketdata.Series{Asset: s.assets[i].k.Symbol, Timeframe: signal.Timeframes[frame], Reset: reset}
	series.Bars = make([]marketdata.AssetBar, 0, len(bars))
	for _, b := range bars {
		series.Bars = append(series.Bars, s.assetBar(i, frame, b))
	}
	return series
}
