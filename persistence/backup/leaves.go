package backup

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// saveCheckpoints comes before the logs that they are of.
func (s *saver) saveCheckpoints(ctx context.Context) error {
	signed, err := s.RDB.HGetAll(ctx, s.CountersignedKey(0)).Result()
	if err != nil {
		return err
	}
	for witness, value := range signed {
		if err := s.add(kindCountersigned, texts(witness, value)...); err != nil {
			return err
		}
	}
	value, err := s.RDB.Get(ctx, s.CheckpointKey(0)).Result()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.add(kindCheckpoint, []byte(value))
}

// saveLeaves saves the Merkle logs up to the heads that were saved.
func (s *saver) saveLeaves(ctx context.Context) error {
	for p := range s.cuts {
		head := s.cuts[p].head
		if head.Size == 0 {
			continue
		}
		source := &logSource{c: s.Client, p: p, key: s.LeavesKey(p), end: head.UpTo}
		err := merged(ctx, []*logSource{source}, func(_ int, e *redisclient.Entry) error {
			return s.add(kindLeaf, number(p), []byte(e.Position.String()), e.Header)
		})
		if err != nil {
			return err
		}
		if err := s.saveTiles(ctx, p, head.Size); err != nil {
			return err
		}
	}
	return nil
}

// saveTiles saves the tiles of a Merkle log with so many leaves.
func (s *saver) saveTiles(ctx context.Context, p int, size int64) error {
	const width, hashBytes = 256, 32
	for level := 0; size > 0; level++ {
		for n := int64(0); n*width < size; n++ {
			bytes := min(width, size-n*width) * hashBytes
			tile, err := s.RDB.GetRange(ctx, s.TileKey(p, level, n), 0, bytes-1).Result()
			if err != nil {
				return err
			}
			if int64(len(tile)) != bytes {
				return contentError{fmt.Errorf("tile %d of level %d has %d bytes, want %d", n, level, len(tile), bytes)}
			}
			if err := s.add(kindTile, number(p), number(level), number(n), []byte(tile)); err != nil {
				return err
			}
		}
		size /= width
	}
	return nil
}

func (l *loader) checkpoint(ctx context.Context, f [][]byte) error {
	l.pipe.Set(ctx, l.CheckpointKey(0), string(f[0]), 0)
	return nil
}

func (l *loader) countersigned(ctx context.Context, f [][]byte) error {
	l.pipe.HSet(ctx, l.CountersignedKey(0), values(f)...)
	return nil
}

// The Merkle logs are those of the partitions. With another number the record begins again.

func (l *loader) leafHead(ctx context.Context, f [][]byte) error {
	if l.same {
		l.pipe.Set(ctx, l.LeafHeadKey(partition(f[0])), string(f[1]), 0)
	}
	return nil
}

func (l *loader) leafAccount(ctx context.Context, f [][]byte) error {
	if l.same {
		l.pipe.HSet(ctx, l.LeafAccountsKey(l.of(signal.AccountID(f[1]))), string(f[1]), string(f[2]))
	}
	return nil
}

func (l *loader) leaf(ctx context.Context, f [][]byte) error {
	if l.same {
		l.pipe.XAdd(ctx, &redis.XAddArgs{Stream: l.LeavesKey(partition(f[0])), ID: string(f[1]),
			Values: []any{"h", string(f[2])}})
	}
	return nil
}

func (l *loader) tile(ctx context.Context, f [][]byte) error {
	if l.same {
		l.pipe.Set(ctx, l.TileKey(partition(f[0]), partition(f[1]), parsed(f[2])), string(f[3]), 0)
	}
	return nil
}
