package market

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Streams are the streams of prices, closed bars and news.
type Streams struct {
	s *redisclient.Client
	// rounds is how many entries of the feeder's stream have readMax ticks, by the last read; 0 before the first.
	rounds atomic.Int64
}

// ticksKey returns the key of a stream of ticks.
func (m *Streams) ticksKey(stream marketdata.TickStream) string {
	if stream == marketdata.OwnTicks {
		return m.s.MarketOwnTicksKey()
	}
	return m.s.MarketTicksKey()
}

// ReadTicks returns the first readMax ticks of a stream after a position, oldest first: an entry each, and
// all of the last round that has some of them. more reports that there may be more at once. It waits for the
// first one up to block, at most a second. The error may be marketdata.ErrRestarted.
func (m *Streams) ReadTicks(
	ctx context.Context, stream marketdata.TickStream, after signal.Position, block time.Duration,
) (ticks []marketdata.Entry, more bool, err error) {
	if stream == marketdata.GivenTicks {
		return m.readInput(ctx, m.s.MarketTicksKey(), readMax, after, block)
	}
	// What is beyond readMax is read again, so ask for about as many entries; for two at least, so that a read of the
	// newest one finds the end.
	count := max(2, m.rounds.Load())
	packed, more, err := m.readInput(ctx, m.s.MarketOwnTicksKey(), count, after, block)
	if err != nil || len(packed) == 0 {
		return nil, false, err
	}
	ticks, read := unpackRounds(packed)
	m.rounds.Store(int64(readMax * read / len(ticks)))
	return ticks, more || read < len(packed), nil
}

// unpackRounds returns the ticks of the first entries, up to the one with the last of readMax ticks, and how many entries
// these are. A round that cannot be read stays as it is, which no reader takes for a tick.
func unpackRounds(entries []marketdata.Entry) (ticks []marketdata.Entry, read int) {
	for read < len(entries) && len(ticks) < readMax {
		e := &entries[read]
		read++
		var round []marketdata.AssetTick
		if packed, ok := e.Fields["r"]; ok {
			round, _ = unpackRound(packed)
		}
		if len(round) == 0 {
			ticks = append(ticks, *e)
		}
		for j := range round {
			ticks = append(ticks, marketdata.Entry{Position: e.Position, Tick: &round[j]})
		}
	}
	return ticks, read
}

// ReadBars returns the entries of market:bars after a position, as ReadTicks does.
func (m *Streams) ReadBars(ctx context.Context, after signal.Position, block time.Duration) (
	bars []marketdata.Entry, more bool, err error,
) {
	return m.readInput(ctx, m.s.MarketBarsKey(), readMax, after, block)
}

func (m *Streams) readInput(ctx context.Context, stream string, count int64, after signal.Position, block time.Duration) (
	entries []marketdata.Entry, more bool, err error,
) {
	streams, more, err := m.read(ctx, count, block, stream, after.String())
	if err != nil {
		return nil, false, err
	}
	for _, s := range streams {
		for _, x := range s.Messages {
			e := marketdata.Entry{Fields: make(map[string]string, len(x.Values))}
			e.Position, _ = signal.ParsePosition(x.ID)
			for name, value := range x.Values {
				e.Fields[name], _ = value.(string)
			}
			entries = append(entries, e)
		}
	}
	return entries, more, nil
}

// read is XREAD with a count. streams are the keys, followed by the positions. more reports that there may be more at
// once. Where nothing is read it returns marketdata.ErrRestarted for a stream that will not reach its position.
func (m *Streams) read(ctx context.Context, count int64, block time.Duration, streams ...string) (
	result []redis.XStream, more bool, err error,
) {
	if block = min(block, redisclient.BlockTimeout); block <= 0 {
		block = -1 // 0 would wait forever
	}
	args := &redis.XReadArgs{Streams: streams, Count: count, Block: block}
	result, err = m.s.Blocking.XRead(ctx, args).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, false, redisclient.Failed(err, "read %s", streams[0])
	}
	for i := range result {
		more = more || int64(len(result[i].Messages)) == count
	}
	for i, n := 0, len(streams)/2; len(result) == 0 && i < n; i++ {
		after, _ := signal.ParsePosition(streams[n+i])
		if restarted, err := m.s.Restarted(ctx, streams[i], after); err != nil {
			return nil, false, err
		} else if restarted {
			return nil, false, fmt.Errorf("read %s: %w", streams[i], marketdata.ErrRestarted)
		}
	}
	return result, more, nil
}

// TicksEnd returns the position of the newest entry of a stream of ticks.
func (m *Streams) TicksEnd(ctx context.Context, stream marketdata.TickStream) (signal.Position, error) {
	last, err := m.s.RDB.XRevRangeN(ctx, m.ticksKey(stream), "+", "-", 1).Result()
	if err != nil {
		return signal.Position{}, redisclient.Failed(err, "find end of ticks")
	}
	return endOf(last), nil
}

// TicksKept reports whether a stream of ticks still has all entries after a position that was
// read from it. If that is uncertain it returns false.
func (m *Streams) TicksKept(ctx context.Context, stream marketdata.TickStream, after signal.Position) (bool, error) {
	info, err := m.s.ReadInfo(ctx, m.ticksKey(stream))
	if err != nil {
		return false, redisclient.Unavailable(err)
	}
	// Trimming removes the oldest entries: as long as the entry at the position or an older one
	// is there, no later entry was removed.
	// But if the position lies beyond all that the stream has had, Redis has lost entries.
	return info.Exists && info.Generated.Compare(after) >= 0 &&
		(info.Generated == after || !info.First.IsZero() && info.First.Compare(after) <= 0), nil
}

func endOf(last []redis.XMessage) signal.Position {
	if len(last) == 0 {
		return signal.Position{}
	}
	p, _ := signal.ParsePosition(last[0].ID)
	return p
}

// FollowEnd returns the positions of the newest entries that Follow reads, and the number of the last closed bar.
func (m *Streams) FollowEnd(ctx context.Context) (closed, news signal.Position, count int64, err error) {
	p := m.s.RDB.TxPipeline()
	lastClosed := p.XRevRangeN(ctx, m.s.MarketClosedKey(), "+", "-", 1)
	lastNews := p.XRevRangeN(ctx, m.s.MarketNewsKey(), "+", "-", 1)
	n := p.HGet(ctx, m.s.MarketStateKey(), "count")
	if err := redisclient.Execute(ctx, p); err != nil {
		return signal.Position{}, signal.Position{}, 0, redisclient.Failed(err, "find end of closed bars and news")
	}
	count, _ = strconv.ParseInt(n.Val(), 10, 64)
	return endOf(lastClosed.Val()), endOf(lastNews.Val()), count, nil
}

// Follow returns the closed bars and the news after the two positions, oldest first, and the
// positions of the last of each. more reports that there may be more at once. It waits for the first one up to
// block, at most a second. The error may be marketdata.ErrRestarted.
func (m *Streams) Follow(ctx context.Context, closedAfter, newsAfter signal.Position, block time.Duration) (
	closed []marketdata.ClosedBar, news []marketdata.NewsItem, closedTo, newsTo signal.Position, more bool, err error,
) {
	closedTo, newsTo = closedAfter, newsAfter
	streams, more, err := m.read(ctx, readMax, block, m.s.MarketClosedKey(), m.s.MarketNewsKey(),
		closedAfter.String(), newsAfter.String())
	if err != nil {
		return nil, nil, closedTo, newsTo, false, err
	}
	for _, s := range streams {
		for _, x := range s.Messages {
			at, _ := signal.ParsePosition(x.ID)
			if s.Stream == m.s.MarketNewsKey() {
				newsTo = at
				record, _ := x.Values["d"].(string)
				// An unreadable item is skipped, so that it does not block the others.
				if n, err := unpackNews(record); err == nil {
					news = append(news, n)
				}
				continue
			}
			closedTo = at
			closed = append(closed, closedBar(x.Values))
		}
	}
	return closed, news, closedTo, newsTo, more, nil
}

// closedBar reads an entry about a closed bar. An unreadable entry has the count 0, which makes a
// reader read the records instead.
func closedBar(values map[string]any) marketdata.ClosedBar {
	var c marketdata.ClosedBar
	count, _ := values["n"].(string)
	asset, _ := values["a"].(string)
	tf, _ := values["t"].(string)
	if packed, ok := values["b"].(string); ok {
		b, err := unpackBar(packed)
		if err != nil {
			return c
		}
		c.Bar = b
	}
	c.Bar.Asset, c.Bar.Timeframe = asset, signal.Timeframe(tf)
	c.Count, _ = strconv.ParseInt(count, 10, 64)
	return c
}

// AppendRound writes ticks of the feeder's sources in order as one entry. KindConflict: another feeder took over, and
// nothing was written.
func (m *Streams) AppendRound(ctx context.Context, epoch int64, ticks []marketdata.AssetTick) error {
	if len(ticks) == 0 {
		return nil
	}
	keys := []string{m.s.FeederEpochKey(), m.s.MarketOwnTicksKey()}
	stored, err := roundScript.Run(ctx, m.s.RDB, keys, epoch, packRound(ticks)).Int64()
	if err != nil {
		return redisclient.Failed(err, "append round of ticks")
	}
	if stored == 0 {
		return errNotFeeder
	}
	return nil
}

// GiveTicks writes ticks to market:ticks, which is open to every source of prices.
func (m *Streams) GiveTicks(ctx context.Context, ticks []marketdata.AssetTick) error {
	if len(ticks) == 0 {
		return nil
	}
	p := m.s.RDB.Pipeline()
	for _, t := range ticks {
		p.XAdd(ctx, &redis.XAddArgs{Stream: m.s.MarketTicksKey(),
			Values: []any{"asset", t.Asset, "price", decimal(t.Price), "volume", decimal(t.Volume), "time", t.Time}})
	}
	return redisclient.Failed(redisclient.Execute(ctx, p), "give ticks")
}
