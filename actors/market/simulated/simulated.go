// Package simulated is the deterministic market of the known assets: paths of prices with
// regimes and fat tails, the bars and ticks made of them, and news that agree with the
// regime. For one seed, start and clock it follows one path, whoever asks and however often
// it is taken over from a checkpoint. It does no input or output.
//
// Where to read: simulated.go (a market and its clock), path.go (the process of a price),
// history.go (how detail grows towards the present), assembler.go (bars), newswire.go (news),
// checkpoint.go, walk.go (bars for calibration).
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
	// maxSpeed lets an hour pass in a second. Beyond it bars of 1m would be shorter
	// than the clock can tell.
	maxSpeed = 3600
	// FullTickSpeed is the speed up to which every point of a path is a tick: 10 a
	// second.
	FullTickSpeed = 60
	// TickWindow is how much of a gap, in milliseconds, is made up in ticks; older
	// prices are in bars only.
	TickWindow = 60_000
	// maxAhead is by how many milliseconds a clock may go back without the market
	// beginning again; it waits until then.
	maxAhead = 60_000
	// parallelSteps is from how much work on assets are computed side by side.
	parallelSteps = 5_000
)

// CheckSpeed returns an error if the simulated market cannot run at speed.
func CheckSpeed(speed int64) error {
	if speed < 1 || speed > maxSpeed {
		return fmt.Errorf("market.speed is %d: must be 1 to %d", speed, maxSpeed)
	}
	return nil
}

// Output is what the simulated market gives: by time, finer bars first.
type Output struct {
	Ticks  []marketdata.AssetTick
	Closed []marketdata.AssetBar
	Fill   []marketdata.Series
	News   []marketdata.NewsItem
	Live   []marketdata.Live
}

// Market is the deterministic market of domain.md, section 7. It belongs to one goroutine,
// which calls Open, then Advance and Checkpoint as often as it likes. What it yields
// depends on seed, start and clock only, not on how often it is asked.
type Market struct {
	grid   prices.Grid
	seed   uint64
	known  []*assets.Spec
	start  int64 // wall time at which it was begun
	at     int64 // market time that all paths have reached
	assets []*simulatedAsset
	// weather, set before Open, returns the anomaly by which the weather moves the price of a commodity at a
	// time; it is the same whenever it is asked. Nil: there is no weather.
	Weather func(symbol string, at time.Time) float64
}

// New returns a market of the assets given, at 1 to maxSpeed times real
// time. seed is for a market without checkpoint.
func New(speed int64, seed uint64, specs []*assets.Spec) *Market {
	return &Market{grid: prices.Grid{Speed: speed}, seed: seed, known: specs}
}

// Name returns what market.source calls it.
func (s *Market) Name() string { return Name }

// Assets returns the records of its assets.
func (s *Market) Assets() []marketdata.Asset {
	records := make([]marketdata.Asset, 0, len(s.known))
	for _, k := range s.known {
		records = append(records, marketdata.Asset{Symbol: k.Symbol, Class: k.Class, Source: Name,
			TickSize: strategy.TickSize(k.Price), AlwaysOpen: true, Speed: s.grid.Speed})
	}
	return records
}

// Open goes on from a checkpoint, perhaps of another process, or begins a market with a
// history that ends now; what lies between comes in Fill. Ticks up to the time published
// have been written before. Times are in milliseconds. A checkpoint of another speed or of
// other assets is of no use, since its times would not fit, nor is one that lies in the
// future. If ctx ends meanwhile, neither the output nor s may be used.
func (s *Market) Open(ctx context.Context, checkpoint []byte, published, now int64) Output {
	var reset [prices.Timeframes]bool
	to := s.grid.Reached(now, minuteStep)
	p := planFor(to)
	if !s.restore(checkpoint) || s.grid.Wall(s.at) > now+maxAhead {
		s.begin(p, now)
		reset, published = [prices.Timeframes]bool{true, true, true, true}, now
	}
	s.watchWeather()
	if s.at < p.days-(longestGap-HistoryBars)*prices.FrameMS[prices.D1] {
		s.at = p.days
		for _, a := range s.assets {
			a.bars.part = [prices.Timeframes]marketdata.Bar{}
		}
		reset[prices.D1] = true
	}
	for _, a := range s.assets {
		a.news.skipTo(to - NewsFor)
	}
	// Where a finer timeframe was left out on the way, its bars begin again.
	reset[prices.H1] = reset[prices.H1] || s.at < p.hours
	reset[prices.M5] = reset[prices.M5] || s.at < p.fives
	reset[prices.M1] = reset[prices.M1] || s.at < p.minutes

	yields := s.run(ctx, to, p, max(published, now-TickWindow))
	o := s.collect(yields)
	if 0 < published && published < now-TickWindow {
		markMissed(o.Ticks, published)
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

// markMissed notes in the first tick of each asset since when ticks are missing.
func markMissed(ticks []marketdata.AssetTick, since int64) {
	marked := map[string]bool{}
	for i := range ticks {
		if t := &ticks[i]; !marked[t.Asset] {
			marked[t.Asset], t.Missed = true, since
		}
	}
}

// watchWeather lets the weather move the prices of commodities from the market's start
// on; its history was made without.
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
		s.assets = append(s.assets, &simulatedAsset{k: k, path: newPath(s.seed, k), bars: assembler{grid: s.grid, finest: prices.D1},
			news: newNewswire(s.seed, k, p.days)})
	}
}

// Advance returns what happened since, up to now.
func (s *Market) Advance(now int64) Output {
	to := s.grid.Reached(now, minuteStep)
	if to <= s.at {
		return Output{}
	}
	// The plan is that of a path that is not behind, whatever the gap: a gap too long
	// for that ends the leadership of the feeder before it comes here.
	yields := s.run(context.Background(), to, plan{}, now-TickWindow)
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

// Next returns when Advance will have something.
func (s *Market) Next() int64 {
	thin := s.thin() * minuteStep
	return s.grid.Wall(s.at - s.at%thin + thin)
}

// thin is how many points of a path lie between two ticks.
func (s *Market) thin() int64 { return (s.grid.Speed + FullTickSpeed - 1) / FullTickSpeed }

// run moves all paths to the market time to, unless ctx ends before that.
func (s *Market) run(ctx context.Context, to int64, p plan, since int64) []yield {
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

func (s *Market) series(a *simulatedAsset, frame int, bars []marketdata.Bar, reset bool) marketdata.Series {
	series := marketdata.Series{Asset: a.k.Symbol, Timeframe: signal.Timeframes[frame], Reset: reset,
		Bars: make([]marketdata.AssetBar, 0, len(bars))}
	for _, b := range bars {
		series.Bars = append(series.Bars, marketdata.AssetBar{Asset: series.Asset, Timeframe: series.Timeframe, Bar: b})
	}
	return series
}
