package e2e

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// Scaled writes hours of bars around a price, whose moves are a share of those of path, and a
// trade at the last price, which it returns.
func (m Pricer) Scaled(asset string, price, swing float64) float64 {
	m.tb.Helper()
	bars := waves(time.Hour, 400)
	at := func(v float64) float64 { return price * (1 + swing*(v-100)/100) }
	for i, b := range bars {
		bars[i].Open, bars[i].High, bars[i].Low, bars[i].Close = at(b.Open), at(b.High), at(b.Low), at(b.Close)
	}
	m.Give(asset, signal.H1, bars...)
	last := bars[len(bars)-1].Close
	m.Tick(asset, Decimal(last))
	return last
}

// Decimal returns a price as feeds write it.
func Decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Pricer writes prices from outside: by XADD to the two streams.
type Pricer struct {
	tb  testing.TB
	rdb redis.Cmdable
}

// NewMarket returns what writes prices into the streams of the market.
func NewMarket(tb testing.TB, rdb redis.Cmdable) Pricer { return Pricer{tb, rdb} }

// Add writes entries, each a list of names and values, to a stream.
func (m Pricer) Add(stream string, entries ...[]any) {
	m.tb.Helper()
	p := m.rdb.Pipeline()
	for _, e := range entries {
		p.XAdd(m.tb.Context(), &redis.XAddArgs{Stream: stream, Values: e})
	}
	if _, err := p.Exec(m.tb.Context()); err != nil {
		m.tb.Fatalf("write to %s: %v", stream, err)
	}
}

// Tick writes a trade.
func (m Pricer) Tick(asset, price string) {
	m.tb.Helper()
	m.Add("market:ticks", []any{"asset", asset, "price", price})
}

// Hours writes the last n closed bars of 1h and returns them.
func (m Pricer) Hours(asset string, n int) []marketdata.Bar {
	m.tb.Helper()
	return m.bars(asset, signal.H1, time.Hour, n)
}

// Days writes the last n closed bars of 1d and returns them. Tests in which
// nothing may change use these: each hour, signals of 1h are scored again.
func (m Pricer) Days(asset string, n int) []marketdata.Bar {
	m.tb.Helper()
	return m.bars(asset, signal.D1, 24*time.Hour, n)
}

// bars writes the last n closed bars of a timeframe, which has the given length,
// and returns them.
func (m Pricer) bars(asset string, tf signal.Timeframe, length time.Duration, n int) []marketdata.Bar {
	m.tb.Helper()
	bars := waves(length, n)
	m.Give(asset, tf, bars...)
	return bars
}

// waves returns the last n closed bars of a length, whose prices are those of path.
func waves(length time.Duration, n int) []marketdata.Bar {
	step := length.Milliseconds()
	end := time.Now().UnixMilli() / step * step
	bars := make([]marketdata.Bar, n)
	for i := range bars {
		open := end - int64(n-i)*step
		b := marketdata.Bar{OpenTime: open, CloseTime: open + step, Open: path(i), Close: path(i + 1),
			Volume: 5 + float64(i%7)}
		b.High, b.Low = max(b.Open, b.Close)+.5, min(b.Open, b.Close)-.5
		bars[i] = b
	}
	return bars
}

// Give writes bars of a timeframe.
func (m Pricer) Give(asset string, tf signal.Timeframe, bars ...marketdata.Bar) {
	m.tb.Helper()
	entries := make([][]any, len(bars))
	for i, b := range bars {
		entries[i] = []any{"asset", asset, "timeframe", string(tf), "open_time", b.OpenTime,
			"open", b.Open, "high", b.High, "low", b.Low, "close", b.Close, "volume", b.Volume}
	}
	m.Add("market:bars", entries...)
}

// path returns the price after i bars: waves with a drift.
func path(i int) float64 {
	x := float64(i)
	return math.Round((100+8*math.Sin(x/11)+3*math.Cos(x/5)+.01*x)*1e4) / 1e4
}

// Open makes an asset that can be run on, with a last trade.
func (m Pricer) Open(asset, price string) []marketdata.Bar {
	m.tb.Helper()
	bars := m.Hours(asset, 400)
	m.Tick(asset, price)
	return bars
}
