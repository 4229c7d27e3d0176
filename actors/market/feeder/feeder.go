// Package feeder feeds the market on the one node that leads: it takes the ticks and bars of
// its sources, and those that anybody writes to the two streams of Redis, filters them,
// builds closed bars, and stores them in records and in a stream of closed bars.
//
// A node leads while it holds a lease, under an epoch; every write is refused once another
// node has a later one. Any error of the store ends a leadership, so that what is in memory
// cannot differ for long from what is stored: the next one, here or elsewhere, begins with
// the records. Closed bars and positions in the streams are stored in one step, so nothing is
// lost or counted twice when the leader changes. A panic ends a leadership, too.
//
// Where to read: feeder.go (whose turn it is), leadership.go (the loop of a leader), open.go
// (how it takes over), work.go (entries of the streams), feeds.go (real sources), unused.go
// (assets that are given up), builder.go (how bars come about).
package feeder

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
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

// Records is what the feeder needs of the store. Methods that carry an epoch
// return KindConflict once another feeder took over.
type Records interface {
	TakeLease(ctx context.Context, node string, lease time.Duration) (epoch int64, feeder string, err error)
	RenewLease(ctx context.Context, node string, epoch int64, lease time.Duration) error
	ReleaseLease(ctx context.Context, node string, epoch int64) error
	State(ctx context.Context) (marketdata.State, error)
	Store(ctx context.Context, step *marketdata.Step) error
	Fill(ctx context.Context, epoch int64, series []marketdata.Series) error
	EachRecent(ctx context.Context, assets []string, tf signal.Timeframe, count int, f func(asset string, bars []marketdata.AssetBar)) error
	AppendTicks(ctx context.Context, epoch int64, ticks []marketdata.AssetTick) error
	ReadTicks(ctx context.Context, stream marketdata.TickStream, after signal.Position, block time.Duration) ([]marketdata.Entry, error)
	ReadBars(ctx context.Context, after signal.Position, block time.Duration) ([]marketdata.Entry, error)
	Trim(ctx context.Context, now time.Time, processed signal.Position, newsSince time.Time) error
	TrimBars(ctx context.Context, processed signal.Position) error
	// Wanted returns the symbols that were asked for and that have no record.
	Wanted(ctx context.Context) ([]string, error)
	// StoreListing keeps for a time what a source calls the assets that it lists.
	StoreListing(ctx context.Context, source string, symbols []string, keep time.Duration) error
	// Uses returns when assets were needed last. ForgetUse drops what is known of one.
	Uses(ctx context.Context) (map[string]time.Time, error)
	ForgetUse(ctx context.Context, symbol string) error
	// Settle records that a symbol is not wanted any more: it has a record, or, unless
	// refused is empty, that it will not get one, which is remembered for a while.
	Settle(ctx context.Context, epoch int64, symbol, refused string, remember time.Duration) error
}

// Options are what a Feeder is made with. The zero value of each field but
// Node works.
type Options struct {
	Node    string         // this node's id; required
	Sources string         // market.source; default simulated
	Speed   int64          // market.speed, 1 to 3600: how fast the simulated market runs; default 60
	Seed    uint64         // of a simulated market that begins; default 1
	Lease   time.Duration  // how long this node is the feeder without renewing; default 5 s
	Real    source.Options // how real sources are reached
	// Weather returns the anomaly by which the weather moves the simulated price of a
	// commodity at a time, the same whenever it is asked; nil: none does.
	Weather func(symbol string, at time.Time) float64

	Now     func() time.Time // the service's clock; default time.Now
	Log     *slog.Logger     // nil: none
	Metrics *Metrics         // nil: none

	maxKept int // default maxKept
}

// Feeder feeds the market while it is this node's turn. See Run.
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
	o.Seed, o.Lease, o.maxKept = cmp.Or(o.Seed, 1), cmp.Or(o.Lease, 5*time.Second), cmp.Or(o.maxKept, maxKept)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Log = o.Log.With("component", "feeder")
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
	f := &Feeder{store: store, o: o, sources: sources, venues: o.Real.Open(sources, o.Log, o.Metrics.ofSources()),
		reporters: o.Real.Reporters(sources, o.Now, o.Log, o.Metrics.ofSources())}
	for i := range assets.Known {
		f.known = append(f.known, &assets.Known[i])
	}
	f.skips = skipLog{log: o.Log, metrics: o.Metrics}
	return f, nil
}

const (
	// retryAfter is how long the feeder waits after an error of the store.
	retryAfter = time.Second
	// finishWithin bounds what is done when the feeder ends.
	finishWithin = 2 * time.Second
)

// What ends a leadership.
var (
	errLeaseLost = errors.New("another node took the lease")
	errHalted    = errors.New("the process was halted")
)

// Run feeds the market whenever no other node does, until ctx ends. Any error of
// the store ends the leadership: the next one, here or elsewhere, begins with what is
// stored, so that nothing in memory can differ from that for long.
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
			err := panics.ErrPanicked
			panics.Guard(f.o.Log, panics.Market, func() { err = newLeadership(f, epoch, taken).run(ctx) }, "epoch", epoch)
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

// giveUp lets another node begin at once.
func (f *Feeder) giveUp(epoch int64) {
	ctx, cancel := context.WithTimeout(context.Background(), finishWithin)
	defer cancel()
	if err := f.store.ReleaseLease(ctx, f.o.Node, epoch); err != nil {
		f.o.Log.Warn("market lease not given up", "err", err)
	}
}

// skipLogEvery is how often, in milliseconds, skipped entries are logged at most.
const skipLogEvery = 10_000

// skipLog counts skipped entries and logs one now and then.
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
	s.log.Warn("market entries skipped", "stream", stream, "entry", e.Position.String(), "asset", asset[:min(len(asset), 4*source.MaxAssetLength)],
		"reason", string(r), "count", s.unlogged)
	s.last, s.unlogged = now, 0
}
