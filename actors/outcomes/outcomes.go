// Package outcomes shares over all nodes how past entries ended, on which estimates of
// confidence rest.
//
// A Service has one pool a timeframe, which it fills from Redis alone, so that the pools of
// all nodes are the same, and knows up to when each has been read. The outcomes that series
// of this node find wait in a queue until they are stored. Nothing blocks a run, except that
// the first one of a node waits until the pool of its timeframe has been read.
package outcomes

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
)

const (
	// defaultQueue is the default of Options.MaxQueued: some 12 MB.
	defaultQueue = 200_000
	// batch is the number of outcomes that are stored at once.
	batch = 500
	// readBlock is how long a read waits for outcomes.
	readBlock = time.Second
)

// Store stores outcomes. See package persistence/outcomes.
type Store interface {
	// Append appends outcomes of a timeframe that are newer than the newest of their asset.
	Append(ctx context.Context, tf signal.Timeframe, list []marketdata.AssetOutcome) error
	// Follow returns outcomes after the given positions and the position of the last one of
	// each timeframe. Without any it waits for up to block.
	Follow(ctx context.Context, after map[signal.Timeframe]signal.Position, block time.Duration) (
		map[signal.Timeframe][]marketdata.AssetOutcome, map[signal.Timeframe]signal.Position, error)
	// Ends returns the position of the newest outcome ever stored of each timeframe.
	Ends(ctx context.Context) (map[signal.Timeframe]signal.Position, error)
}

// Options are the settings of a Service.
type Options struct {
	Store Store // required
	Keep  int   // outcomes of a timeframe to keep; default strategy.MaxPooled
	// MaxQueued bounds the outcomes of this node that wait to be stored; more are dropped.
	// Default 200,000.
	MaxQueued int
	Now       func() time.Time // the clock of the store; default time.Now
	Log       *slog.Logger     // or nil
}

// Service has the outcomes of all assets. Its methods may be called from any goroutine.
type Service struct {
	o    Options
	wake chan struct{} // there is something to store

	mu       sync.Mutex
	pools    map[signal.Timeframe]*pool
	progress chan struct{} // closed and replaced when a pool has been read further
	reread   bool
	queue    map[signal.Timeframe][]marketdata.AssetOutcome
	queued   int
	dropping bool // the last outcome did not fit into the queue
}

// pool is the pool of a timeframe.
type pool struct {
	*strategy.Pool
	at   signal.Position // of the last outcome
	read int64           // all that was stored by this time, in milliseconds, is in the pool
}

// New returns a service with empty pools. Run fills them.
func New(o Options) *Service {
	o.Keep, o.MaxQueued = cmp.Or(o.Keep, strategy.MaxPooled), cmp.Or(o.MaxQueued, defaultQueue)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler)).With("component", "outcomes")
	s := &Service{
		o:        o,
		wake:     make(chan struct{}, 1),
		progress: make(chan struct{}),
		queue:    make(map[signal.Timeframe][]marketdata.AssetOutcome),
	}
	s.restart()
	return s
}

// restart begins with empty pools.
func (s *Service) restart() {
	s.pools, s.reread = make(map[signal.Timeframe]*pool), false
	for _, tf := range signal.Timeframes {
		s.pools[tf] = &pool{Pool: strategy.NewPool(s.o.Keep)}
	}
}

// ForgetAll makes the service read everything again, into other pools, since Redis has lost
// records.
func (s *Service) ForgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reread = true
}

// Pool returns the pool of a timeframe once it has all that counts at the close of a bar, a
// time in milliseconds. After Redis has lost records it is another pool. The error is that of
// ctx, if it ends first.
func (s *Service) Pool(ctx context.Context, tf signal.Timeframe, closeTime int64) (*strategy.Pool, error) {
	// Where the clock went back, a bar may have closed in its future, and all that is stored counts.
	known := min(strategy.KnownAt(closeTime), s.o.Now().UnixMilli())
	for {
		s.mu.Lock()
		p, progress := s.pools[tf], s.progress
		ready := !s.reread && p.read != 0 && p.read >= known
		s.mu.Unlock()
		if ready {
			return p.Pool, nil
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Found queues an outcome of an asset, unless it is stored already. It does not wait.
func (s *Service) Found(tf signal.Timeframe, asset string, o strategy.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pools[tf].Newest(asset) >= o.Bar {
		return
	}
	if s.queued >= s.o.MaxQueued {
		if !s.dropping {
			s.o.Log.Warn("outcomes are dropped: too many wait to be stored", "waiting", s.queued)
		}
		s.dropping = true
		return
	}
	s.queue[tf] = append(s.queue[tf], marketdata.AssetOutcome{Asset: asset, Outcome: o})
	s.queued++
	s.dropping = false
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run reads and stores outcomes until ctx ends. What then waits to be stored is lost; any
// node finds it again in bars.
func (s *Service) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() { s.loop(ctx, "outcomes cannot be read", s.follow) })
	loops.Go(func() { s.loop(ctx, "outcomes cannot be stored", s.store) })
	loops.Wait()
	return nil
}

// loop calls f until ctx ends, with pauses after failures.
func (s *Service) loop(ctx context.Context, failure string, f func(ctx context.Context, failed bool) error) {
	var failed backoff.Backoff
	again := false
	for ctx.Err() == nil {
		err := panics.ErrPanicked
		panics.Guard(s.o.Log, panics.Market, func() { err = f(ctx, again) }, "task", failure)
		if again = err != nil; !again {
			failed.Reset()
			continue
		}
		if ctx.Err() == nil {
			failed.Log(s.o.Log, failure, "err", err)
			failed.Wait(ctx)
		}
	}
}

// follow reads what is new. After a failure, or by request, it first checks whether the
// store still has what was read before.
func (s *Service) follow(ctx context.Context, failed bool) error {
	if failed {
		if err := s.check(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	if s.reread {
		s.restart()
	}
	pools, block := s.pools, readBlock
	after := make(map[signal.Timeframe]signal.Position, len(pools))
	for tf, p := range pools {
		if after[tf] = p.at; p.read == 0 {
			block = 0 // runs wait for the first read
		}
	}
	s.mu.Unlock()
	begun := s.o.Now().UnixMilli()
	found, to, err := s.o.Store.Follow(ctx, after, block)
	if err != nil {
		return err
	}
	for tf, list := range found {
		for i := range list {
			pools[tf].Add(list[i].Asset, list[i].Outcome)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for tf, p := range pools {
		at, ok := to[tf]
		if !ok {
			p.read = max(p.read, begun) // the clock may go back
			continue
		}
		if p.at = at; p.read != 0 { // else it is not complete before a read finds nothing
			p.read = max(p.read, at.MS-1) // there may be more of this millisecond
		}
	}
	close(s.progress)
	s.progress = make(chan struct{})
	return nil
}

// check makes the service read everything again if the store has lost what it has read.
func (s *Service) check(ctx context.Context) error {
	ends, err := s.o.Store.Ends(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for tf, p := range s.pools {
		if ends[tf].Compare(p.at) < 0 {
			s.o.Log.Warn("the store has lost outcomes: they are read again", "timeframe", string(tf))
			s.reread = true
		}
	}
	return nil
}

// store stores the next batch. A batch whose fate is not known is stored again, which
// changes nothing if it was stored.
func (s *Service) store(ctx context.Context, _ bool) error {
	tf, list := s.next()
	if len(list) == 0 {
		select {
		case <-s.wake:
		case <-ctx.Done():
		}
		return nil
	}
	if err := s.o.Store.Append(ctx, tf, list); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue[tf] = s.queue[tf][len(list):]; len(s.queue[tf]) == 0 {
		s.queue[tf] = nil // frees its memory
	}
	s.queued -= len(list)
	return nil
}

// next returns the first outcomes of a queue, which stay in it.
func (s *Service) next() (signal.Timeframe, []marketdata.AssetOutcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tf := range signal.Timeframes {
		if q := s.queue[tf]; len(q) > 0 {
			n := min(len(q), batch)
			return tf, q[:n:n]
		}
	}
	return "", nil
}
