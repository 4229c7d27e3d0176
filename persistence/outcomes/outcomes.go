// Package outcomes stores how the past entries of all assets ended, one stream a timeframe.
// All nodes append what they find and read what all have found.
//
// The time of an entry, by Redis' clock, is the time from which its outcome is known, so
// that what a run knew can be reproduced. Each bar of an asset is appended once, in order,
// whichever node has found it first. Like prices, outcomes do not wait for replicas: what is
// lost is found again from bars.
package outcomes

import (
	"context"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	// MaxStored is the number of outcomes of a timeframe that are kept: the newest, and up to
	// some hundred more.
	MaxStored = 200_000
	// MaxBatch is the number of outcomes that one call of Append takes at most, since Redis
	// serves no other client meanwhile.
	MaxBatch = 500
	// ReadCount is the number of outcomes of a timeframe that one read returns at most.
	ReadCount = 5000
	// maxAssets bounds the assets of a timeframe, whose names come from outside.
	maxAssets = 400
)

//go:embed scripts
var scripts embed.FS

var appendScript = redisclient.Script(scripts, "append")

// Store stores outcomes.
type Store struct{ s *redisclient.Client }

// New returns the outcomes that c reads and writes.
func New(c *redisclient.Client) *Store { return &Store{c} }

// Append appends at most MaxBatch outcomes of a timeframe, those of an asset in order. It
// skips the bars that are not newer than the newest one of their asset, so it may be repeated.
// At is not stored.
func (o *Store) Append(ctx context.Context, tf signal.Timeframe, list []marketdata.AssetOutcome) error {
	if len(list) == 0 {
		return nil
	}
	if len(list) > MaxBatch {
		return fmt.Errorf("append outcomes: %d at once, at most %d", len(list), MaxBatch)
	}
	args := make([]any, 0, 2+3*len(list))
	args = append(args, MaxStored, maxAssets)
	for i := range list {
		args = append(args, list[i].Asset, list[i].Bar, pack(&list[i].Outcome))
	}
	keys := []string{o.s.MarketOutcomesKey(tf), o.s.MarketOutcomeBarsKey(tf)}
	return redisclient.Failed(appendScript.Run(ctx, o.s.RDB, keys, args...).Err(), "append outcomes of %s", tf)
}

// Follow returns the outcomes of all timeframes after the given positions, at most ReadCount
// of each, and the position of the last one of each. If there are none it waits for up to
// block, at most a second. An entry that cannot be read is logged and skipped. The error may be
// marketdata.ErrRestarted.
func (o *Store) Follow(
	ctx context.Context, after map[signal.Timeframe]signal.Position, block time.Duration,
) (map[signal.Timeframe][]marketdata.AssetOutcome, map[signal.Timeframe]signal.Position, error) {
	if block = min(block, redisclient.BlockTimeout); block <= 0 {
		block = -1 // 0 would wait forever
	}
	n := len(signal.Timeframes)
	keys := make([]string, 2*n)
	for i, tf := range signal.Timeframes {
		keys[i], keys[n+i] = o.s.MarketOutcomesKey(tf), after[tf].String()
	}
	streams, err := o.s.Blocking.XRead(ctx, &redis.XReadArgs{Streams: keys, Count: ReadCount, Block: block}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, nil, redisclient.Failed(err, "read outcomes")
	}
	for i := 0; len(streams) == 0 && i < n; i++ {
		if restarted, err := o.s.Restarted(ctx, keys[i], after[signal.Timeframes[i]]); err != nil {
			return nil, nil, err
		} else if restarted {
			return nil, nil, fmt.Errorf("read %s: %w", keys[i], marketdata.ErrRestarted)
		}
	}
	found, to := map[signal.Timeframe][]marketdata.AssetOutcome{}, map[signal.Timeframe]signal.Position{}
	for _, s := range streams {
		tf := signal.Timeframes[slices.Index(keys, s.Stream)]
		found[tf], to[tf] = o.read(s.Messages, after[tf])
	}
	return found, to, nil
}

// All returns all outcomes of a timeframe, and whether all that were ever stored are among
// them.
func (o *Store) All(ctx context.Context, tf signal.Timeframe) ([]marketdata.AssetOutcome, bool, error) {
	var all []marketdata.AssetOutcome
	for at := (signal.Position{}); ; {
		page, err := o.s.RDB.XRangeN(ctx, o.s.MarketOutcomesKey(tf), "("+at.String(), "+", ReadCount).Result()
		if err != nil {
			return nil, false, redisclient.Failed(err, "read outcomes of %s", tf)
		}
		found, to := o.read(page, at)
		all, at = append(all, found...), to
		if len(page) < ReadCount {
			return all, len(all) < MaxStored, nil
		}
	}
}

// read returns the outcomes of entries and the position of the last one.
func (o *Store) read(entries []redis.XMessage, at signal.Position) ([]marketdata.AssetOutcome, signal.Position) {
	found := make([]marketdata.AssetOutcome, 0, len(entries))
	for i := range entries {
		at, _ = signal.ParsePosition(entries[i].ID)
		asset, _ := entries[i].Values["a"].(string)
		packed, _ := entries[i].Values["o"].(string)
		outcome, err := unpack([]byte(packed))
		if err != nil {
			o.s.Log.Warn("outcome is not readable", "component", "persistence", "asset", asset, "err",
				fmt.Errorf("entry %s: %w", entries[i].ID, err))
			continue
		}
		outcome.At = at.MS
		found = append(found, marketdata.AssetOutcome{Asset: asset, Outcome: outcome})
	}
	return found, at
}

// Ends returns the position of the newest entry ever appended to each timeframe. It goes back
// only if Redis has lost entries.
func (o *Store) Ends(ctx context.Context) (map[signal.Timeframe]signal.Position, error) {
	ends := map[signal.Timeframe]signal.Position{}
	for _, tf := range signal.Timeframes {
		info, err := o.s.ReadInfo(ctx, o.s.MarketOutcomesKey(tf))
		if err != nil {
			return nil, redisclient.Unavailable(err)
		}
		ends[tf] = info.Generated
	}
	return ends, nil
}

// version is the first byte of a packed outcome.
const version = 2

// Bits of what an outcome holds, and the bounds of its values.
const (
	binBits = 6
	maxBin  = 1<<binBits - 1 // 32 strengths in each direction
	rBits   = 7
	maxR    = 60 // in 1/20 R
)

// pack returns an outcome as it is stored: version, bar, time from there to its end, and a number
// with strengths and results.
func pack(o *marketdata.Outcome) []byte {
	b := binary.AppendUvarint([]byte{version}, uint64(o.Bar))
	b = binary.AppendUvarint(b, uint64(o.Ended-o.Bar))
	var held uint64
	for _, bin := range o.Bins {
		held = held<<binBits | uint64(bin)
	}
	for _, results := range o.R {
		for _, r := range results {
			held = held<<rBits | uint64(r+maxR)
		}
	}
	return binary.LittleEndian.AppendUint64(b, held)
}

var errOutcome = errors.New("outcome is damaged")

// unpack reads a packed outcome.
func unpack(b []byte) (marketdata.Outcome, error) {
	var o marketdata.Outcome
	d := codec.DecodeVersion(b, version)
	o.Bar = int64(d.Uvarint())
	o.Ended = o.Bar + int64(d.Uvarint())
	var held uint64
	if b := d.Take(8); b != nil {
		held = binary.LittleEndian.Uint64(b)
	}
	if d.Err != nil {
		return marketdata.Outcome{}, fmt.Errorf("read outcome: %w", d.Err)
	}
	valid := len(d.B) == 0 && o.Bar >= 0 && o.Ended >= o.Bar
	for i := len(o.R) - 1; i >= 0; i-- {
		for j := len(o.R[i]) - 1; j >= 0; j-- {
			o.R[i][j] = int8(held&(1<<rBits-1)) - maxR
			valid = valid && o.R[i][j] <= maxR
			held >>= rBits
		}
	}
	for i := len(o.Bins) - 1; i >= 0; i-- {
		o.Bins[i] = uint8(held & maxBin)
		held >>= binBits
	}
	if !valid || held != 0 {
		return marketdata.Outcome{}, errOutcome
	}
	return o, nil
}
