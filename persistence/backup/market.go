package backup

import (
	"context"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	kindHash      kind = 29 // name, then field and value of each
	kindUsed      kind = 30 // member and score of each
	kindEntry     kind = 31 // name, id, then field and value of each
	kindStreamEnd kind = 32 // name, newest id, added, deleted
)

// marketState is the state of the feeder, before the bars that it has stored, and how past entries ended.
var marketState = section{
	keys: []string{"{market}:state", "{market}:assets", "{market}:live", "{market}:keptfor", "{market}:used", "{market}:news",
		"{market}:outcomes:TF", "{market}:outcomebars:TF"},
	save: saveMarket,
	records: []record{
		{kind: kindHash, fields: 1, valid: func(f fields) bool { return hashKey(noKeys, f.text(0)) != "" },
			load: toHash(func(t *target, f fields) string { return hashKey(t.Keys, f.text(0)) }, 1)},
		{kind: kindUsed, fields: 1, load: toSorted(func(t *target, _ fields) string { return t.MarketUsedKey() }, 0)},
		{kind: kindEntry, fields: 2, valid: ofStream, load: func(ctx context.Context, t *target, f fields) error {
			at, err := f.position(1)
			if err == nil {
				t.append(ctx, streamKey(t.Keys, f.text(0)), at, f.args(2)...)
			}
			return err
		}},
		{kind: kindStreamEnd, fields: 4, valid: ofStream, load: func(ctx context.Context, t *target, f fields) error {
			t.setEnd(ctx, streamKey(t.Keys, f.text(0)), f[1:4])
			return nil
		}},
	},
}

// noKeys make names that show whether there is a key.
var noKeys redisclient.Keys

// hashKey returns the key of a hash with a name in a backup, "" if there is none.
func hashKey(k redisclient.Keys, name string) string {
	switch name {
	case "state":
		return k.MarketStateKey()
	case "assets":
		return k.MarketAssetsKey()
	case "live":
		return k.MarketLiveKey()
	case "keptfor":
		return k.MarketKeptForKey()
	}
	if tf, ok := strings.CutPrefix(name, "outcomebars:"); ok && isTimeframe(tf) {
		return k.MarketOutcomeBarsKey(signal.Timeframe(tf))
	}
	return ""
}

// streamKey returns the key of a stream with a name in a backup, "" if there is none.
func streamKey(k redisclient.Keys, name string) string {
	if name == "news" {
		return k.MarketNewsKey()
	}
	if tf, ok := strings.CutPrefix(name, "outcomes:"); ok && isTimeframe(tf) {
		return k.MarketOutcomesKey(signal.Timeframe(tf))
	}
	return ""
}

func ofStream(f fields) bool { return streamKey(noKeys, f.text(0)) != "" }

func isTimeframe(tf string) bool { return slices.Contains(signal.Timeframes, signal.Timeframe(tf)) }

func saveMarket(ctx context.Context, s *source) error {
	for _, name := range []string{"state", "assets", "live", "keptfor"} {
		if err := saveHash(ctx, s, name); err != nil {
			return err
		}
	}
	if err := s.addSortedSet(ctx, s.MarketUsedKey(), kindUsed); err != nil {
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
			if err := s.add(kindHash, "outcomebars:"+string(tf), bars.Val()); err != nil {
				return err
			}
		}
		if err := saveStream(ctx, s, "outcomes:"+string(tf), infoOf(info)); err != nil {
			return err
		}
	}
	info, err := s.ReadInfo(ctx, s.MarketNewsKey())
	if err != nil {
		return err
	}
	return saveStream(ctx, s, "news", info)
}

func saveHash(ctx context.Context, s *source, name string) error {
	for cursor := uint64(0); ; {
		found, next, err := s.RDB.HScan(ctx, hashKey(s.Keys, name), cursor, "", scanCount).Result()
		if err == nil && len(found) > 0 {
			err = s.add(kindHash, name, found)
		}
		if cursor = next; err != nil || cursor == 0 {
			return err
		}
	}
}

// saveStream saves a stream up to the end that info has.
func saveStream(ctx context.Context, s *source, name string, info redisclient.StreamInfo) error {
	if !info.Exists {
		return nil
	}
	for start := "-"; ; {
		page, err := s.RDB.XRangeN(ctx, streamKey(s.Keys, name), start, info.Generated.String(), scanCount).Result()
		if err != nil {
			return err
		}
		for _, m := range page {
			values := map[string]string{}
			for field, v := range m.Values {
				values[field], _ = v.(string)
			}
			if err := s.add(kindEntry, name, m.ID, values); err != nil {
				return err
			}
		}
		if len(page) < scanCount {
			return s.add(kindStreamEnd, append([]any{name}, endOf(info)...)...)
		}
		start = "(" + page[len(page)-1].ID
	}
}
