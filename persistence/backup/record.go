package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	merkle "github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	kindCheckpoint    kind = 2  // value
	kindCountersigned kind = 3  // field, value
	kindLeaf          kind = 19 // partition, position, place
	kindTile          kind = 20 // partition, level, number, hashes
	kindRootEntry     kind = 34 // partition, number, sizes
	kindRootTile      kind = 35 // partition, level, number, hashes
	kindRollback      kind = 36 // value
)

// checkpoints come before the logs that they are of.
var checkpoints = section{
	keys: []string{"{pNN}:checkpoint", "{pNN}:countersigned", "{pNN}:rollback", "{pNN}:root", "{pNN}:roottile:LEVEL:NUMBER"},
	save: func(ctx context.Context, s *source) error {
		signed, err := s.RDB.HGetAll(ctx, s.CountersignedKey(0)).Result()
		if err == nil {
			err = s.addHash(kindCountersigned, signed)
		}
		if err != nil {
			return err
		}
		back, err := s.RDB.Get(ctx, s.RollbackKey(0)).Result()
		if err == nil {
			err = s.add(kindRollback, back)
		}
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		value, err := s.RDB.Get(ctx, s.CheckpointKey(0)).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.add(kindCheckpoint, value); err != nil {
			return err
		}
		return saveRoot(ctx, s, value)
	},
	records: []record{
		{kind: kindCheckpoint, fields: 1, load: toString(func(t *target, _ fields) string { return t.CheckpointKey(0) }, 0)},
		{kind: kindCountersigned, fields: 2,
			load: toHash(func(t *target, _ fields) string { return t.CountersignedKey(0) }, 0)},
		{kind: kindRollback, fields: 1, load: toString(func(t *target, _ fields) string { return t.RollbackKey(0) }, 0)},
		{kind: kindRootEntry, fields: 3, ofPartition: true, sameOnly: true,
			load: func(ctx context.Context, t *target, f fields) error {
				return t.pipe.XAdd(ctx, &redis.XAddArgs{Stream: t.RootKey(f.partition()), ID: f.text(1),
					Values: []any{"h", f.text(2)}}).Err()
			}},
		{kind: kindRootTile, fields: 4, ofPartition: true, sameOnly: true, load: toString(func(t *target, f fields) string {
			return t.RootTileKey(f.partition(), int(f.number(1)), f.number(2))
		}, 3)},
	},
}

// saveRoot saves the root log of a stored checkpoint. There may be newer entries.
func saveRoot(ctx context.Context, s *source, checkpoint string) error {
	var stored struct {
		Note string `json:"checkpoint"`
	}
	if err := json.Unmarshal([]byte(checkpoint), &stored); err != nil {
		return contentError{fmt.Errorf("checkpoint: %w", err)}
	}
	c, err := merkle.ReadCheckpoint([]byte(stored.Note))
	if err != nil {
		return contentError{err}
	}
	log := &logSource{c: s.Client, key: s.RootKey(0), end: signal.Position{Seq: c.Root.N}}
	if err := merged(ctx, []*logSource{log}, func(p int, e *redisclient.Entry) error {
		return s.add(kindRootEntry, p, e.Position, e.Header)
	}); err != nil {
		return err
	}
	return saveTiles(ctx, s, kindRootTile, 0, c.Root.N, s.RootTileKey)
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
			if err := saveTiles(ctx, s, kindTile, p, head.Size, s.TileKey); err != nil {
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

// saveTiles saves the tiles, which are under their keys, of a Merkle log with so many leaves.
func saveTiles(
	ctx context.Context, s *source, of kind, p int, size int64, key func(p, level int, n int64) string,
) error {
	const width, hashBytes = 256, 32
	for level := 0; size > 0; level++ {
		for n := int64(0); n*width < size; n++ {
			bytes := min(width, size-n*width) * hashBytes
			tile, err := s.RDB.GetRange(ctx, key(p, level, n), 0, bytes-1).Result()
			if err != nil {
				return err
			}
			if int64(len(tile)) != bytes {
				return contentError{fmt.Errorf("tile %d of level %d has %d bytes, want %d", n, level, len(tile), bytes)}
			}
			if err := s.add(of, p, level, n, tile); err != nil {
				return err
			}
		}
		size /= width
	}
	return nil
}
