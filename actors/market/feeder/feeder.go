// Package feeder feeds the market on the one node that leads. It takes the ticks and bars of its
// sources and those written to the two streams of Redis from outside, filters them, builds closed
// bars, and stores them in records and in a stream of closed bars.
//
// A node leads while it holds a lease, under an epoch; every write is refused once another node has a later
// one. Any error of the store, and a panic, ends a leadership, so that the memory cannot differ from the
// store for long: the next leadership, here or elsewhere, begins with the records. Closed bars and positions
// in the streams are stored in one step, so nothing is lost or counted twice when the leader changes.
//
// Where to read: feeder.go (taking the lease), leadership.go (the loop of a leader), open.go
// (taking over), given.go (entries of the streams), kept.go (the assets of real sources and their goroutines),
// assetstates.go and builder.go (building bars), writers.go (what is stored).
package feeder

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Records is the part of the store that the feeder needs. Methods with an epoch return KindConflict
// once another feeder took over.
type Records interface {
	TakeLease(ctx context.Context, node string, lease time.Duration) (epoch int64, feeder string, err error)
	RenewLease(ctx context.Context, node string, epoch int64, lease time.Duration) error
	ReleaseLease(ctx context.Context, node string, epoch int64) error
	State(ctx context.Context) (marketdata.State, error)
	Store(ctx context.Context, step *marketdata.Step) error
	Fill(ctx context.Context, epoch int64, series []marketdata.Series) error
	EachRecent(ctx context.Context, assets []string, tf signal.Timeframe, count int,
		f func(asset string, bars []marketdata.AssetBar)) error
	// AppendRound writes ticks as one entry.
	AppendRound(ctx context.Context, epoch int64, ticks []marketdata.AssetTick) error
	ReadTicks(ctx context.Context, stream marketdata.TickStream, after signal.Position, block time.Duration) (
		entries []marketdata.Entry, more bool, err error)
	ReadBars(ctx context.Context, after signal.Position, block time.Duration) (
		entries []marketdata.Entry, more bool, err error)
	Trim(ctx context.Context, now time.Time, processed signal.Position, newsSince time.Time) error
	TrimBars(ctx context.Context, processed signal.Position) error
	// Wanted returns the symbols without record that were asked for.
	Wanted(ctx context.Context) ([]string, error)
	// StoreListing stores the symbols that a source lists for a time.
	StoreListing(ctx context.Context, source string, symbols []string, keep time.Duration) error
	// Uses returns when assets were last needed. ForgetUse removes that of one.
	Uses(ctx context.Context) (map[string]time.Time, error)
	ForgetUse(ctx context.Context, symbol string) error
	// Settle records that a symbol is no longer wanted, because it has a record or, unless refused
	// is empty, because it will not get one, which is remembered for a while.
	Settle(ctx context.Context, epoch int64, symbol, refused string, remember time.Duration) error
}

// DefaultSeed is the seed of a simulated market. The simulated weather that moves its prices has the same.
const DefaultSeed = 1

// Options configure a Feeder. The zero value of each field but Node works.
type Options struct {
	Node    string         // ID of this node; required
	Sources string         // market.source; default simulated
	Speed   int64          // market.speed, 1 to 3600: how fast the simulated market runs; default 60
	Seed    uint64         // of a simulated market that begins; default DefaultSeed
	Lease   time.Duration  // how long this node leads without renewal; default 5 s
	Real    source.Options // how real sources are reached
	// Weather returns the anomaly that moves the simulated price of a commodity at a time. It must
	// be deterministic, and may be nil.
	Weather func(symbol string, at time.Time) float64

	Now     func() time.Time // the service's clock; default time.Now
	Log     *slog.Logger     // may be nil
	Metrics *Metrics         // may be nil

	maxKept int // default maxKept
}

// Feeder feeds the market while this node leads. See Run.
type Feeder struct {
	store   Records
	o       Options
	sources []string
	known   []*assets.Spec // the assets of the simulated market
	skips   skipLog

	venues    []source.Venue // the real sources, in the order of sources
	reporters []*source.Reporter
}

// New returns a feeder, or an error if an option is not valid.
func New(store Records, o Options) (*Feeder, error) {
	o.Sources, o.Speed = cmp.Or(o.Sources, simulated.Name), cmp.Or(o.Speed, 60)
	o.Seed, o.Lease, o.maxKept = cmp.Or(o.Seed, DefaultSeed), cmp.Or(o.Lease, 5*time.Second), cmp.Or(o.maxKept, maxKept)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("component", "feeder")
	sources, err := source.ParseSources(o.Sources)
	if err != nil {
		return nil, err
	}
	if err := simulated.CheckSpeed(o.Speed); err != nil {
		return nil, err
	}
	if o.Node == "" {
		return nil, errors.New("market feeder: node is empty")
	}
	if err := o.Real.Check(sources); err != nil {
		return nil, err
	}
	f := &Feeder{
		store: store, o: o, sources: sources, skips: skipLog{log: o.Log, metrics: o.Metrics},
		venues:    o.Real.Open(sources, o.Log, o.Metrics.ofSources()),
		reporters: o.Real.Reporters(sources, o.Now, o.Log, o.Metrics.ofSources()),
	}
	for i := range assets.Known {
		f.known = append(f.known, &assets.Known[i])
	}
	return f, nil
}

const (
	// retryAfter is how long the feeder waits after an error of the store.
	retryAfter = time.Second
	// finishWithin bounds the writes at the end of the feeder.
	finishWithin = 2 * time.Second
)

// Reasons for the end of a leadership.
var (
	errLeaseLost = errors.New("another node took the lease")
	errHalted    = errors.New("the process was halted")
)

// Run feeds the market whenever no other node does, until ctx ends.
func (f *Feeder) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		taken := f.o.Now()
		epoch, err := int64(0), panics.ErrPanicked
		panics.Guard(f.o.Log, panics.Market, func() { epoch, _, err = f.store.TakeLease(ctx, f.o.Node, f.o.Lease) })
		wait := f.o.Lease / 4
		switch {
		case err != nil:
			f.o.Log.Warn("market feeder cannot reach the store", "err", err)
			wait = retryAfter
		case epoch != 0:
			f.o.Log.Info("market feeder begins", "epoch", epoch, "sources", f.o.Sources)
			err, lead := panics.ErrPanicked, newLeadership(f, epoch, taken)
			f.o.Metrics.setFeeding(1)
			panics.Guard(f.o.Log, panics.Market, func() { err = lead.run(ctx) }, "epoch", epoch)
			f.o.Metrics.setFeeding(0)
			if ctx.Err() != nil {
				f.giveUp(epoch)
				return nil
			}
			f.o.Log.Warn("market feeder interrupted", "epoch", epoch, "err", err)
			wait = retryAfter
		}
		backoff.Sleep(ctx, wait)
	}
	return nil
}

// real reports whether a venue before the source before in the list may have an asset.
func (f *Feeder) real(symbol, class, before string) bool {
	end := slices.Index(f.sources, before)
	for _, v := range f.venues {
		if at := slices.Index(f.sources, v.Name()); end >= 0 && at > end {
			continue
		}
		if _, can := v.Symbol(symbol, class); can {
			return true
		}
	}
	return false
}

// giveUp releases the lease, so that another node can lead at once.
func (f *Feeder) giveUp(epoch int64) {
	ctx, cancel := context.WithTimeout(context.Background(), finishWithin)
	defer cancel()
	if err := f.store.ReleaseLease(ctx, f.o.Node, epoch); err != nil {
		f.o.Log.Warn("market lease not released", "err", err)
	}
}

// skipLogEvery is the minimum interval, in milliseconds, of logs of skipped entries.
const skipLogEvery = 10_000

// skipLog counts skipped entries and logs some of them.
type skipLog struct {
	log      *slog.Logger
	metrics  *Metrics
	last     int64 // when one was logged
	unlogged int
}

func (s *skipLog) skip(stream string, e *marketdata.Entry, r prices.Reason, now int64) {
	s.metrics.skip(r)
	s.unlogged++
	if now-s.last < skipLogEvery && now >= s.last && s.last != 0 {
		return
	}
	asset := e.Fields["asset"]
	asset = asset[:min(len(asset), 4*source.MaxAssetLength)]
	s.log.Warn("market entries skipped", "stream", stream, "entry", e.Position.String(), "asset", asset,
		"reason", string(r), "count", s.unlogged)
	s.last, s.unlogged = now, 0
}
