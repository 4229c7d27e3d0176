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

// listen delivers what a venue tells, until that fails. up is when it began to tell.
func (k *AssetFeed) listen(ctx context.Context, v Venue, symbol string, up int64) error {
	s := listener{AssetFeed: k, v: v, symbol: symbol, heard: time.Now(), traded: time.Now(), partial: up - up%prices.FrameMS[prices.M1]}
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
			k.log.Warn("prices came too fast", "source", v.Name(), "asset", k.Symbol)
			events = append([]binance.Event{{Kind: binance.Up}}, events...)
		}
		for i := range events {
			if err := s.hear(ctx, &events[i]); err != nil {
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

	heard  time.Time // when it was last spoken of
	traded time.Time // when a trade last came
	downAt time.Time // since when there is no connection; zero: there is one
	// partial is the minute within which the venue began to tell: its ticks are not all
	// there, so its bar makes up for them. 0: none.
	partial int64
	asked   time.Time // when a bar was asked for that is late
	failed  int       // how often in a row that failed
	bars    []marketdata.Bar
	ticks   []marketdata.Tick
}

// hear handles one event.
func (s *listener) hear(ctx context.Context, e *binance.Event) error {
	now := s.now().UnixMilli()
	s.heard = time.Now()
	switch e.Kind {
	case binance.Down:
		if s.downAt.IsZero() {
			s.downAt = time.Now()
		}
	case binance.Refused:
		return fetch.ErrUnknown
	case binance.Up:
		// What was traded meanwhile is not sent again: bars make up for it before
		// anything else counts.
		s.flush(ctx)
		s.downAt, s.traded, s.partial = time.Time{}, time.Now(), now-now%prices.FrameMS[prices.M1]
		return s.load(ctx, s.v, s.symbol)
	case binance.Closed:
		return s.hearBar(ctx, e.Bar, now)
	case binance.Trade:
		s.traded = time.Now()
		return s.hearTick(ctx, e.Tick, now)
	}
	return nil
}

func (s *listener) hearBar(ctx context.Context, b marketdata.Bar, now int64) error {
	r := checkBar(&b, prices.M1, now)
	switch {
	case r != "":
	case b.CloseTime <= s.newest[prices.M1]-askedTwice:
		r = prices.SkipOld
	case s.level > 0 && !prices.Near(b.Close, s.level):
		r = prices.SkipLevel
	}
	if r != "" {
		s.metrics.Skip(r)
		return nil
	}
	if b.Volume > 0 && time.Since(s.traded) > silentFor {
		return errSilent // of trades, which come apart from bars
	}
	if b.OpenTime > s.newest[prices.M1] {
		return nil // one before it is missing: check asks for both
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

// madeUp returns since when ticks are missing for which the bars make up that there are
// now; 0: none are, or not yet.
func (s *listener) madeUp() (since int64) {
	if s.partial != 0 && s.newest[prices.M1] > s.partial {
		since, s.partial = s.partial, 0
	}
	return since
}

func (s *listener) hearTick(ctx context.Context, t marketdata.Tick, now int64) error {
	if r := s.checkTick(&t, now); r != "" {
		s.metrics.Skip(r)
		if s.faults >= LevelFaults {
			s.anew = true // nothing of the history is sure
			return errLies
		}
		if r == prices.SkipTime && t.Time > now && s.partial == 0 {
			// If it is our clock that is wrong, bars make up for it when it is right again.
			s.partial = s.since() - s.since()%prices.FrameMS[prices.M1]
		}
		return nil
	}
	s.ticked = t.Time
	if n := len(s.ticks); n > 0 && s.ticks[n-1].Price == t.Price && t.Time-s.ticks[n-1].Time < workEvery.Milliseconds() {
		s.ticks[n-1].Volume += t.Volume // one order met several others at one price
		return nil
	}
	s.ticks = append(s.ticks, t)
	return nil
}

// flush delivers what has come together.
func (s *listener) flush(ctx context.Context) {
	if len(s.bars)+len(s.ticks) == 0 {
		return
	}
	s.deliver(ctx, Delivery{Bars: s.bars, Ticks: s.ticks, UpTo: s.newest[prices.M1]})
	s.bars, s.ticks = nil, nil
}

// check finds out whether the venue does what it should.
func (s *listener) check(ctx context.Context) error {
	if !s.downAt.IsZero() {
		if time.Since(s.downAt) > downFor {
			return errDown
		}
		return nil
	}
	if time.Since(s.heard) > silentFor {
		return errSilent
	}
	now := s.now().UnixMilli()
	late := now - s.newest[prices.M1] - prices.FrameMS[prices.M1]
	if late < lateBar || time.Since(s.asked) < lateBar*time.Millisecond {
		return nil
	}
	s.asked = time.Now()
	raw, err := s.v.Bars(ctx, s.symbol, signal.M1, s.newest[prices.M1], now)
	if err != nil {
		if s.failed++; s.failed >= failedAsks {
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
