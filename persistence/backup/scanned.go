package backup

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	kindReply   kind = 27 // account, digest, until, value
	kindWeather kind = 28 // name, until (0: for ever), value
	kindBars    kind = 33 // timeframe, asset, then member and score of each
)

const (
	rowReply   = "{pNN}:reply:ACCOUNT:DIGEST"
	rowBars    = "{market}:bars:TF:ASSET"
	rowWeather = "{weather}:NAME"
)

var ofReply, ofBars, ofWeather = patternOf(rowReply), patternOf(rowBars), patternOf(rowWeather)

// stringsAtOnce is how many replies or forecasts are read in one round trip.
const stringsAtOnce = 100

// scanned is what is found only by the names of keys.
var scanned = section{
	keys: []string{rowReply, rowBars, rowWeather},
	save: func(ctx context.Context, s *source) error {
		return eachPage(ctx, s.Client, func(keys []string) error { return saveFound(ctx, s, keys) })
	},
	records: []record{
		{kind: kindReply, fields: 4, names: 2, load: loadReply},
		{kind: kindWeather, fields: 3, names: 1, load: func(ctx context.Context, t *target, f fields) error {
			t.set(ctx, t.WeatherKey(f.text(0)), f, 1, f.text(2))
			return nil
		}},
		{kind: kindBars, fields: 2, names: 2, valid: func(f fields) bool { return isTimeframe(f.text(0)) },
			load: toSorted(func(t *target, f fields) string { return t.BarsKey(f.text(1), signal.Timeframe(f[0])) }, 2)},
	},
}

func saveFound(ctx context.Context, s *source, keys []string) error {
	var found []string
	for _, key := range keys {
		if ofReply.MatchString(key) || ofWeather.MatchString(key) {
			found = append(found, key)
		} else if m := ofBars.FindStringSubmatch(key); m != nil && isTimeframe(m[1]) {
			if err := s.addSortedSet(ctx, key, kindBars, m[1], m[2]); err != nil {
				return err
			}
		}
	}
	for group := range slices.Chunk(found, stringsAtOnce) {
		if err := saveStrings(ctx, s, group); err != nil {
			return err
		}
	}
	return nil
}

// saveStrings saves replies and weather, and how long they are kept.
func saveStrings(ctx context.Context, s *source, keys []string) error {
	got, until := make([]*redis.StringCmd, len(keys)), make([]*redis.DurationCmd, len(keys))
	pipe := s.RDB.Pipeline()
	for i, key := range keys {
		got[i], until[i] = pipe.Get(ctx, key), pipe.PExpireTime(ctx, key)
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return err
	}
	for i, key := range keys {
		value, err := got[i].Val(), error(nil)
		if value == "" || until[i].Val() == noKey {
			continue // it has ended since
		}
		if m := ofReply.FindStringSubmatch(key); m != nil {
			err = addReply(s, signal.AccountID(m[1]), m[2], untilMS(until[i]), value)
		} else {
			err = s.add(kindWeather, ofWeather.FindStringSubmatch(key)[1], untilMS(until[i]), value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addReply adds the reply to a request whose change is in the backup.
func addReply(s *source, account signal.AccountID, digest string, until int64, value string) error {
	at, _, err := codec.CutStamp([]byte(value))
	if err != nil || s.cuts[s.Partition(account)].after(at) {
		return nil // the lock of a request under way, or a later change
	}
	return s.add(kindReply, account, digest, until, value)
}

func loadReply(ctx context.Context, t *target, f fields) error {
	if f.expired(2, t.now) {
		return nil
	}
	account := f.account(0)
	value, err := t.restamped(f[3], t.from(account), 1)
	if err == nil {
		t.set(ctx, t.ReplyKey(t.of(account), account, f.text(1)), f, 2, string(value))
	}
	return err
}
