package source

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source/binance"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// listener handles the events of an asset that a venue sends.
type listener struct {
	*AssetFeed
	v      Venue
	symbol string

	lastEvent time.Time
	lastTrade time.Time
	downAt    time.Time // when the connection was lost; zero while there is one
	// partial is the minute in which the venue connected, or 0. Its ticks are incomplete until its
	// bar makes up for them.
	partial int64
	asked   time.Time // when a late bar was last requested
	failed  int       // consecutive failures of that
	bars    []marketdata.Bar
	ticks   []marketdata.Tick
}

// newListener returns a listener to a venue that connected at the time up.
func newListener(k *AssetFeed, v Venue, symbol string, up int64) *listener {
	now, minute := time.Now(), up-up%prices.FrameMS[prices.M1]
	return &listener{AssetFeed: k, v: v, symbol: symbol, lastEvent: now, lastTrade: now, partial: minute}
}

// run delivers the events of the venue until that fails.
func (s *listener) run(ctx context.Context) error {
	timer := time.NewTicker(workEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.better:
			return errPreferred
		case <-timer.C:
		}
		events, lost := s.inbox.take()
		if lost {
			s.o.Log.Warn("prices came too fast", "source", s.v.Name(), "asset", s.Symbol)
			events = append([]binance.Event{{Kind: binance.Up}}, events...)
		}
		for i := range events {
			if err := s.handle(ctx, &events[i]); err != nil {
				return err
			}
		}
		s.flush(ctx)
		if err := s.check(ctx); err != nil {
			return err
		}
	}
}

func (s *listener) handle(ctx context.Context, e *binance.Event) error {
	now := s.o.Now().UnixMilli()
	s.lastEvent = time.Now()
	switch e.Kind {
	case binance.Down:
		if s.downAt.IsZero() {
			s.downAt = time.Now()
		}
	case binance.Refused:
		return fetch.ErrUnknown
	case binance.Up:
		// Trades during the outage are not sent again: bars make up for them first.
		s.flush(ctx)
		s.downAt, s.lastTrade, s.partial = time.Time{}, time.Now(), now-now%prices.FrameMS[prices.M1]
		return s.load(ctx, s.v, s.symbol)
	case binance.Closed:
		return s.onBar(ctx, e.Bar, now)
	case binance.Trade:
		s.lastTrade = time.Now()
		return s.onTick(ctx, e.Tick, now)
	}
	return nil
}

func (s *listener) onBar(ctx context.Context, b marketdata.Bar, now int64) error {
	r := checkBar(&b, prices.M1, now)
	switch {
	case r != "":
	case b.CloseTime <= s.newest[prices.M1]-askedTwice:
		r = prices.SkipOld
	case s.level > 0 && !prices.Near(b.Close, s.level):
		r = prices.SkipLevel
	}
	if r != "" {
		s.o.Metrics.Skip(r)
		return nil
	}
	if b.Volume > 0 && time.Since(s.lastTrade) > silentFor {
		return errSilent // the stream of trades is
	}
	if b.OpenTime > s.newest[prices.M1] {
		return nil // one before it is missing: check requests both
	}
	s.flush(ctx) // the ticks of its time
	s.noteBars([]marketdata.Bar{b})
	s.bars = append(s.bars, b)
	if since := s.madeUp(); since != 0 {
		s.deliver(ctx, Delivery{Bars: s.bars, Missed: since, UpTo: s.newest[prices.M1]})
		s.bars = nil
	}
	return nil
}

// madeUp returns the time since which ticks are missing that the bars so far make up for, or 0.
func (s *listener) madeUp() (since int64) {
	if s.partial != 0 && s.newest[prices.M1] > s.partial {
		since, s.partial = s.partial, 0
	}
	return since
}

func (s *listener) onTick(ctx context.Context, t marketdata.Tick, now int64) error {
	if r := s.checkTick(&t, now); r != "" {
		s.o.Metrics.Skip(r)
		if s.faults >= LevelFaults {
			s.distrusted = true
			return errLevel
		}
		if r == prices.SkipTime && t.Time > now && s.partial == 0 {
			// If our clock is wrong, bars make up for the tick once it is right again.
			s.partial = s.since() - s.since()%prices.FrameMS[prices.M1]
		}
		return nil
	}
	s.ticked = t.Time
	if n := len(s.ticks); n > 0 {
		last := &s.ticks[n-1]
		if last.Price == t.Price && t.Time-last.Time < workEvery.Milliseconds() {
			last.Volume += t.Volume // parts of one order at one price
			return nil
		}
	}
	s.ticks = append(s.ticks, t)
	return nil
}

// checkTick returns why a trade cannot be true, or an empty reason.
func (s *listener) checkTick(t *marketdata.Tick, now int64) prices.Reason {
	if skipped := checkTick(t, now); skipped != "" {
		return skipped
	}
	switch {
	case t.Time < s.ticked:
		return prices.SkipOld
	case s.level > 0 && !prices.Near(t.Price, s.level):
		s.faults++
		return prices.SkipLevel
	}
	s.faults = 0
	return ""
}

func (s *listener) flush(ctx context.Context) {
	if len(s.bars)+len(s.ticks) == 0 {
		return
	}
	s.deliver(ctx, Delivery{Bars: s.bars, Ticks: s.ticks, UpTo: s.newest[prices.M1]})
	s.bars, s.ticks = nil, nil
}

// check returns an error if the venue is down or silent, and requests a bar that is late.
func (s *listener) check(ctx context.Context) error {
	if !s.downAt.IsZero() {
		if time.Since(s.downAt) > downFor {
			return errDown
		}
		return nil
	}
	if time.Since(s.lastEvent) > silentFor {
		return errSilent
	}
	now := s.o.Now().UnixMilli()
	late := now - s.newest[prices.M1] - prices.FrameMS[prices.M1]
	if late < lateBar || time.Since(s.asked) < lateBar*time.Millisecond {
		return nil
	}
	s.asked = time.Now()
	raw, err := s.v.Bars(ctx, s.symbol, signal.M1, s.newest[prices.M1], now)
	if err != nil {
		if s.failed++; s.failed >= maxFailedAsks {
			return err
		}
		return nil
	}
	s.failed = 0
	bars := sanitize(raw, prices.M1, now, s.o.Metrics)
	if len(bars) == 0 && late > 10*prices.FrameMS[prices.M1] {
		return errSilent
	}
	s.noteBars(bars)
	s.deliver(ctx, Delivery{Bars: bars, Missed: s.madeUp(), UpTo: s.newest[prices.M1]})
	return nil
}

const (
	// upWithin bounds the time until a venue sends events of an asset.
	upWithin = 20 * time.Second
	// maxPending bounds the pending events.
	maxPending = 20_000
)

var errDown = errors.New("the connection is down")

// inbox holds the pending events of an asset. It is safe for concurrent use.
type inbox struct {
	mu      sync.Mutex
	pending []binance.Event
	lost    bool // pending was full
}

// push adds an event of a venue. It does not wait.
func (b *inbox) push(e binance.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) >= maxPending {
		b.pending, b.lost = nil, true
	}
	b.pending = append(b.pending, e)
}

// take returns the pushed events; lost reports whether some were dropped.
func (b *inbox) take() (events []binance.Event, lost bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	events, lost = b.pending, b.lost
	b.pending, b.lost = nil, false
	return events, lost
}

// awaitUp waits until a venue sends events of the asset. Later events stay pending.
func (b *inbox) awaitUp(ctx context.Context) error {
	deadline := time.NewTimer(upWithin)
	defer deadline.Stop()
	for {
		up, err := b.connected()
		if up || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return errDown
		case <-time.After(workEvery):
		}
	}
}

// connected reports whether the venue has sent that it is connected.
func (b *inbox) connected() (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, e := range b.pending {
		switch e.Kind {
		case binance.Up:
			b.pending = b.pending[i+1:]
			return true, nil
		case binance.Refused:
			return false, fetch.ErrUnknown
		}
	}
	return false, nil
}
