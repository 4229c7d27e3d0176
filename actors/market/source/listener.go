package source

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/source/binance"
	"github.com/agentsignal/agentsignal/actors/market/source/fetch"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// listen delivers the events of a venue until that fails. up is when it connected.
func (k *AssetFeed) listen(ctx context.Context, v Venue, symbol string, up int64) error {
	now, minute := time.Now(), up-up%prices.FrameMS[prices.M1]
	s := listener{AssetFeed: k, v: v, symbol: symbol, lastEvent: now, lastTrade: now, partial: minute}
	timer := time.NewTicker(workEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.better:
			return errPreferred
		case <-timer.C:
		}
		events, lost := k.take()
		if lost {
			k.o.Log.Warn("prices came too fast", "source", v.Name(), "asset", k.Symbol)
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
	bars := s.sanitize(raw, prices.M1, now)
	if len(bars) == 0 && late > 10*prices.FrameMS[prices.M1] {
		return errSilent
	}
	s.noteBars(bars)
	s.deliver(ctx, Delivery{Bars: bars, Missed: s.madeUp(), UpTo: s.newest[prices.M1]})
	return nil
}
