package signals

import (
	"context"
	"embed"
	"errors"
	"strconv"
	"sync"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

//go:embed scripts
var scripts embed.FS

var blockAppendScript = redisclient.Script(scripts, "block_append")

// BlockEntries is how many entries of the signal log a block has, unless a test wants fewer. Those at
// its end are not in a block yet.
const BlockEntries = 10_000

// blocksRead is how many blocks one command reads.
const blocksRead = 4

// compaction is how many entries of a partition's signal log were ever added up to the end of its last
// block, as its owner knows. Erased entries make that an estimate, until the log is read.
type compaction struct{ epoch, covered int64 }

// compactions holds them by partition.
type compactions struct {
	mu sync.Mutex // guards of
	of map[int]compaction
}

func (c *compactions) get(p int) compaction {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[p]
}

func (c *compactions) set(p int, v compaction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[int]compaction{}
	}
	c.of[p] = v
}

// Compactor makes the blocks of the signal logs of owned partitions.
type Compactor struct {
	passes
	blockEntries int
	compactions  compactions
}

// covered returns the compaction of a partition, whose signal log has the given state.
func (s *Compactor) covered(ctx context.Context, p int, epoch int64, log redisclient.StreamInfo) (compaction, error) {
	known, none := s.compactions.get(p), compaction{epoch, log.Added - log.Length}
	blocks, err := s.RDB.Exists(ctx, s.BlocksKey(p)).Result()
	if err != nil || blocks == 0 { // they may have been removed
		return none, redisclient.Failed(err, "look for blocks of partition %d", p)
	}
	if known.epoch == epoch && known.covered <= log.Added {
		return known, nil
	}
	last, err := s.RDB.XRevRangeN(ctx, s.BlocksKey(p), "+", "-", 1).Result()
	if err != nil || len(last) == 0 {
		return none, redisclient.Failed(err, "read the last block of partition %d", p)
	}
	field := func(name string) []byte {
		v, _ := last[0].Values[name].(string)
		return []byte(v)
	}
	lists, weather := field("h"), field("m")
	if codec.IsLaterBlock(lists) || codec.IsLaterBlock(weather) { // a later build goes on with them
		_, err := s.trimBlocks(ctx, p, log)
		return compaction{epoch, log.Added}, err
	}
	v, ok := codec.ParseDigits(field("n"))
	if !ok || v > log.Added { // it is of another log
		return none, nil
	}
	known = compaction{epoch, v}
	s.compactions.set(p, known)
	return known, nil
}

// Compact puts the next 10,000 entries of a partition's signal log into a block, if there are
// as many, and removes the blocks of entries that the log no longer has. It reports whether there may
// be another block to make. Blocks hold nothing that the log does not: they are read in its place
// where they continue each other, and made again where they were removed. Blocks of a later build are left to it.
// KindConflict: another epoch holds the partition.
func (s *Compactor) Compact(ctx context.Context, p int, epoch int64) (more bool, err error) {
	info, err := s.ReadInfo(ctx, s.SignalsKey(p))
	if err != nil {
		return false, redisclient.Unavailable(err)
	}
	if !info.Complete {
		return false, nil
	}
	known, err := s.covered(ctx, p, epoch, info)
	if err != nil || info.Added-known.covered < int64(s.blockEntries) {
		return false, err
	}
	// An account that is being erased leaves the log in steps.
	erasing, err := s.RDB.HLen(ctx, s.EraseKey(p)).Result()
	if err != nil || erasing > 0 {
		return false, redisclient.Failed(err, "read erasings of partition %d", p)
	}
	blocks, err := s.trimBlocks(ctx, p, info)
	if err != nil {
		return false, err
	}
	w, err := s.fillBlock(ctx, p, blocks.Last)
	if err != nil {
		return false, err
	}
	if w.Len() < s.blockEntries {
		s.compactions.set(p, compaction{epoch, info.Added - int64(w.Len())})
		return false, nil
	}
	lists, weather, err := w.Encode()
	if err != nil {
		return false, err
	}
	known.covered += int64(s.blockEntries)
	keys := []string{s.EpochKey(p), s.BlocksKey(p)}
	done, err := blockAppendScript.Run(ctx, s.RDB, keys, strconv.FormatInt(epoch, 10), blocks.Last.String(),
		w.Last().String(), lists, weather, strconv.FormatInt(known.covered, 10)).Int()
	switch {
	case err != nil:
		return false, redisclient.Failed(err, "append a block of partition %d", p)
	case done == 0:
		return false, eventlog.ErrNotOwner
	case done == 1:
		s.compactions.set(p, known)
	}
	return done == 1, nil
}

// trimBlocks removes the blocks before the first entry of the log, or all if the log does not
// continue them. It returns the state of those that are left.
func (s *Compactor) trimBlocks(ctx context.Context, p int, log redisclient.StreamInfo) (redisclient.StreamInfo, error) {
	key := s.BlocksKey(p)
	blocks, err := s.ReadInfo(ctx, key)
	switch {
	case err != nil || !blocks.Exists:
	case log.Generated.Compare(blocks.Last) < 0 || blocks.Last.Compare(log.First) < 0:
		blocks, err = redisclient.StreamInfo{}, s.RDB.Del(ctx, key).Err()
	case blocks.First.Compare(log.First) < 0:
		err = s.RDB.XTrimMinID(ctx, key, log.First.String()).Err()
	}
	return blocks, redisclient.Failed(err, "trim blocks of partition %d", p)
}

// fillBlock returns a block of the entries after a position, or the beginning of it.
func (s *Compactor) fillBlock(ctx context.Context, p int, after signal.Position) (*codec.BlockWriter, error) {
	w := codec.NewBlockWriter(after)
	log := logScan{known: knownTexts{}, f: func(e signal.LogEntry) error {
		w.Add(&e)
		return nil
	}}
	weather := weatherScan{f: w.AddWeather}
	err := s.scanLogFrom(ctx, p, "("+after.String(), func(e *redisclient.Entry) error {
		lists, slopes := log.bad.n, weather.bad.n
		if err := errors.Join(log.add(e), weather.add(e)); err != nil {
			return err
		}
		// Another version may read what this one does not.
		if log.bad.n > lists {
			w.Add(&signal.LogEntry{Position: e.Position})
		}
		if weather.bad.n > slopes {
			w.AddWeather(&signal.WeatherEntry{Position: e.Position})
		}
		if w.Len() == s.blockEntries {
			return errEnd
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		err = nil
	}
	return w, err
}
