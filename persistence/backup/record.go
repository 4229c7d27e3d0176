package backup

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	kindCheckpoint    kind = 2  // value
	kindCountersigned kind = 3  // field, value
	kindLeaf          kind = 19 // partition, position, place
	kindTile          kind = 20 // partition, level, number, hashes
)

// checkpoints come before the logs that they are of.
var checkpoints = section{
	keys: []string{"{pNN}:checkpoint", "{pNN}:countersigned"},
	save: func(ctx context.Context, s *source) error {
		signed, err := s.RDB.HGetAll(ctx, s.CountersignedKey(0)).Result()
		if err == nil {
			err = s.addHash(kindCountersigned, signed)
		}
		if err != nil {
			return err
		}
		value, err := s.RDB.Get(ctx, s.CheckpointKey(0)).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return err
		}
		return s.add(kindCheckpoint, value)
	},
	records: []record{
		{kind: kindCheckpoint, fields: 1, load: toString(func(t *target, _ fields) string { return t.CheckpointKey(0) }, 0)},
		{kind: kindCountersigned, fields: 2,
			load: toHash(func(t *target, _ fields) string { return t.CountersignedKey(0) }, 0)},
	},
}

// leaves are the Merkle logs up to the heads that were saved. With another number of partitions the record begins again.
var leaves = section{
	keys: []string{"{pNN}:leaves", "{pNN}:tile:LEVEL:NUMBER"},
	save: func(ctx context.Context, s *source) error {
		for p := range s.cuts {
			head := s.cuts[p].head
			if head.Size == 0 {
				continue
			}
			log := &logSource{c: s.Client, p: p, key: s.LeavesKey(p), end: head.UpTo}
			if err := merged(ctx, []*logSource{log}, func(_ int, e *redisclient.Entry) error {
				return s.add(kindLeaf, p, e.Position, e.Header)
			}); err != nil {
				return err
			}
			if err := saveTiles(ctx, s, p, head.Size); err != nil {
				return err
			}
		}
		return nil
	},
	records: []record{
		{kind: kindLeaf, fields: 3, ofPartition: true, sameOnly: true, load: loadLeaf},
		{kind: kindTile, fields: 4, ofPartition: true, sameOnly: true, load: toString(func(t *target, f fields) string {
			return t.TileKey(f.partition(), int(f.number(1)), f.number(2))
		}, 3)},
	},
}

func loadLeaf(ctx context.Context, t *target, f fields) error {
	key := t.LeavesKey(f.partition())
	return t.pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: f.text(1), Values: []any{"h", f.text(2)}}).Err()
}

// saveTiles saves the tiles of a Merkle log with so many leaves.
func saveTiles(ctx context.Context, s *source, p int, size int64) error {
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
			if err := s.add(kindTile, p, level, n, tile); err != nil {
				return err
			}
		}
		size /= width
	}
	return nil
}
