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

// covered returns the compaction of a partition, whose signal log has the given state.
func (s *Store) covered(ctx context.Context, p int, epoch int64, log redisclient.StreamInfo) (compaction, error) {
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
	n, _ := last[0].Values[coveredField].(string)
	v, ok := codec.ParseDigits([]byte(n))
	if !ok || v > log.Added { // it is of another log
		return none, nil
	}
	known = compaction{epoch, v}
	s.compactions.set(p, known)
	return known, nil
}

// coveredField is the field of a block that compaction.covered is read from.
const coveredField = "n"

// Compact puts the next 10,000 entries of a partition's signal log into a block, if there are
// as many, and removes the blocks of entries that the log no longer has. It reports whether there may
// be another block to make. Blocks hold nothing that the log does not: they are read in its place
// where they continue each other, and made again where they were removed. KindConflict: another
// epoch holds the partition.
func (s *Store) Compact(ctx context.Context, p int, epoch int64) (more bool, err error) {
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
	block, err := w.Encode()
	if err != nil {
		return false, err
	}
	known.covered += int64(s.blockEntries)
	keys := []string{s.EpochKey(p), s.BlocksKey(p)}
	done, err := blockAppendScript.Run(ctx, s.RDB, keys, strconv.FormatInt(epoch, 10), blocks.Last.String(),
		w.Last().String(), block, strconv.FormatInt(known.covered, 10)).Int()
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
func (s *Store) trimBlocks(ctx context.Context, p int, log redisclient.StreamInfo) (redisclient.StreamInfo, error) {
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
func (s *Store) fillBlock(ctx context.Context, p int, after signal.Position) (*codec.BlockWriter, error) {
	w := codec.NewBlockWriter(after)
	log := logScan{known: knownTexts{}, f: func(e signal.LogEntry) error {
		w.Add(&e)
		return nil
	}}
	err := s.scanLogFrom(ctx, p, "("+after.String(), func(e *redisclient.Entry) error {
		bad := log.bad.n
		if err := log.add(e); err != nil {
			return err
		}
		if log.bad.n > bad { // another version may read it
			w.Add(&signal.LogEntry{Position: e.Position})
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

// scanBlocks gives log the entries of a partition's blocks, as if they were read from the signal log,
// and returns the position of the last one. A block that does not continue the one before it ends them: the
// log has what follows. If a block is not readable, all are removed, and the pass fails: it may have got
// entries of that block. KindUnavailable then, as the next pass reads the log.
func (s *Store) scanBlocks(ctx context.Context, p int, log *logScan) (signal.Position, error) {
	var upTo signal.Position
	info, err := s.ReadInfo(ctx, s.SignalsKey(p))
	if err != nil {
		return upTo, redisclient.Unavailable(err)
	}
	if !info.Complete || info.First.IsZero() {
		return upTo, nil
	}
	var buffer []byte
	err = s.scanStream(ctx, s.BlocksKey(p), "-", blocksRead, func(e *redisclient.Entry) error {
		block, err := codec.OpenBlock(e.Header, buffer)
		if err != nil {
			return err
		}
		buffer = block.Bytes()
		// The first one may be left of several, of which the log has no entries either.
		follows := block.After == upTo || upTo.IsZero() && block.After.Compare(info.First) < 0
		if !follows || info.Generated.Compare(e.Position) < 0 {
			return errEnd
		}
		if err := block.Each(func(entry *signal.LogEntry) error {
			switch {
			case entry.Position.Compare(info.First) < 0: // trimmed
				return nil
			case entry.Account == "":
				return s.scanEntry(ctx, p, entry.Position, log)
			}
			return log.f(*entry)
		}); err != nil {
			return err
		}
		upTo = e.Position
		return nil
	})
	switch {
	case errors.Is(err, errEnd):
		return upTo, nil
	case errors.Is(err, codec.ErrBlock):
		s.Log.Warn("blocks of the signal log are removed, and made again from the log", "component", "persistence",
			"partition", p, "err", err)
		if err := s.RDB.Del(ctx, s.BlocksKey(p)).Err(); err != nil {
			return upTo, redisclient.Failed(err, "remove blocks of partition %d", p)
		}
		return upTo, redisclient.Unavailable(err)
	}
	return upTo, err
}

// scanEntry gives log the entry at a position.
func (s *Store) scanEntry(ctx context.Context, p int, at signal.Position, log *logScan) error {
	entries, err := s.ReadRange(ctx, s.SignalsKey(p), at.String(), at.String(), 1)
	if err != nil {
		return redisclient.Unavailable(err)
	}
	for i := range entries {
		if err := log.add(&entries[i]); err != nil {
			return err
		}
	}
	return nil
}
