package backup

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// saveMarket saves the state of the feeder, before the bars that it has stored.
func (s *saver) saveMarket(ctx context.Context) error {
	for _, key := range []string{s.MarketStateKey(), s.MarketAssetsKey(), s.MarketLiveKey(), s.MarketKeptForKey()} {
		if err := s.saveHash(ctx, key); err != nil {
			return err
		}
	}
	if err := s.saveSortedSet(ctx, s.MarketUsedKey()); err != nil {
		return err
	}
	for _, tf := range signal.Timeframes {
		// The stream last: its bars may be newer than those of the assets.
		pipe := s.RDB.TxPipeline()
		bars, info := pipe.HGetAll(ctx, s.MarketOutcomeBarsKey(tf)), pipe.XInfoStream(ctx, s.MarketOutcomesKey(tf))
		if err := executeWithStreams(ctx, pipe, bars, info); err != nil {
			return err
		}
		if len(bars.Val()) > 0 {
			name := redisclient.Former(s.MarketOutcomeBarsKey(tf))
			if err := s.add(kindHash, pairs([]string{name}, bars.Val())...); err != nil {
				return err
			}
		}
		if err := s.saveStream(ctx, s.MarketOutcomesKey(tf), infoOf(info)); err != nil {
			return err
		}
	}
	info, err := s.ReadInfo(ctx, s.MarketNewsKey())
	if err != nil {
		return err
	}
	return s.saveStream(ctx, s.MarketNewsKey(), info)
}

func (s *saver) saveHash(ctx context.Context, key string) error {
	for cursor := uint64(0); ; {
		found, next, err := s.RDB.HScan(ctx, key, cursor, "", scanCount).Result()
		if err != nil {
			return err
		}
		if len(found) > 0 {
			if err := s.add(kindHash, texts(append([]string{redisclient.Former(key)}, found...)...)...); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

func (s *saver) saveSortedSet(ctx context.Context, key string) error {
	all, err := s.RDB.ZRangeWithScores(ctx, key, 0, -1).Result()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(all, scanCount) {
		fields := []string{redisclient.Former(key)}
		for _, z := range group {
			fields = append(fields, score(z), member(z))
		}
		if err := s.add(kindSortedSet, texts(fields...)...); err != nil {
			return err
		}
	}
	return nil
}

// saveStream saves a stream up to the end that info has.
func (s *saver) saveStream(ctx context.Context, key string, info redisclient.StreamInfo) error {
	if !info.Exists {
		return nil
	}
	name, start := redisclient.Former(key), "-"
	for {
		page, err := s.RDB.XRangeN(ctx, key, start, info.Generated.String(), scanCount).Result()
		if err != nil {
			return err
		}
		for _, m := range page {
			values := map[string]string{}
			for field, v := range m.Values {
				values[field], _ = v.(string)
			}
			if err := s.add(kindEntry, pairs([]string{name, m.ID}, values)...); err != nil {
				return err
			}
		}
		if len(page) < scanCount {
			return s.add(kindStreamEnd, append([][]byte{[]byte(name)}, endOf(info)...)...)
		}
		start = "(" + page[len(page)-1].ID
	}
}

// saveScanned saves what is found only by its name: replies, bars, and weather.
func (s *saver) saveScanned(ctx context.Context) error {
	masters, err := s.Masters(ctx)
	if err != nil {
		return err
	}
	for _, m := range masters {
		for cursor := uint64(0); ; {
			keys, next, err := m.Scan(ctx, cursor, "", scanCount).Result()
			if err != nil {
				return err
			}
			if err := s.saveFound(ctx, keys); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

func (s *saver) saveFound(ctx context.Context, keys []string) error {
	var found []string
	for _, key := range keys {
		switch former := redisclient.Former(key); {
		case isReply(former), asItIs[kindString](former):
			found = append(found, key)
		case asItIs[kindSortedSet](former) && key != s.MarketUsedKey():
			if err := s.saveSortedSet(ctx, key); err != nil {
				return err
			}
		}
	}
	for group := range slices.Chunk(found, stringsAtOnce) {
		if err := s.saveStrings(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// saveStrings saves strings, and how long they are kept.
func (s *saver) saveStrings(ctx context.Context, keys []string) error {
	got, until := make([]*redis.StringCmd, len(keys)), make([]*redis.DurationCmd, len(keys))
	pipe := s.RDB.Pipeline()
	for i, key := range keys {
		got[i], until[i] = pipe.Get(ctx, key), pipe.PExpireTime(ctx, key)
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return err
	}
	for i, key := range keys {
		former, value := redisclient.Former(key), got[i].Val()
		if value == "" || until[i].Val() == noKey {
			continue // it has ended since
		}
		var err error
		if isReply(former) {
			err = s.addReply(former, untilText(until[i]), value)
		} else {
			err = s.add(kindString, texts(former, untilText(until[i]), value)...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) text(ctx context.Context, f [][]byte) error {
	if l.expired(f[1]) {
		return nil
	}
	key := l.Named(string(f[0]))
	l.pipe.Set(ctx, key, string(f[2]), 0)
	l.expire(ctx, key, f[1])
	return nil
}

func (l *loader) hash(ctx context.Context, f [][]byte) error {
	l.pipe.HSet(ctx, l.Named(string(f[0])), values(f[1:])...)
	return nil
}

func (l *loader) sortedSet(ctx context.Context, f [][]byte) error {
	var list []redis.Z
	for i := 1; i+1 < len(f); i += 2 {
		list = append(list, redis.Z{Score: scoreOf(f[i]), Member: string(f[i+1])})
	}
	l.pipe.ZAdd(ctx, l.Named(string(f[0])), list...)
	return nil
}

func (l *loader) entry(ctx context.Context, f [][]byte) error {
	at, ok := signal.ParsePosition(string(f[1]))
	if !ok {
		return ErrDamaged
	}
	l.append(ctx, l.Named(string(f[0])), at, values(f[2:])...)
	return nil
}

func (l *loader) streamEnd(ctx context.Context, f [][]byte) error {
	l.setEnd(ctx, l.Named(string(f[0])), f[1:4])
	return nil
}
