package leaves

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Checkpoints are the newest signed heads of all Merkle logs, and those that witnesses have signed.
type Checkpoints struct{ *redisclient.Client }

// Checkpoint returns the newest checkpoint, once replicas have it. KindNotFound: nothing has been
// signed yet.
func (s *Checkpoints) Checkpoint(ctx context.Context) (*record.Signed, error) {
	const p = record.SigningPartition
	value, err := s.RDB.Get(ctx, s.CheckpointKey(p)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, signal.NotFound("checkpoint")
	}
	if err != nil {
		return nil, redisclient.Failed(err, "read checkpoint")
	}
	if err := s.Reads.Confirm(ctx, s.ConfirmKey(p)); err != nil {
		return nil, err
	}
	c := &record.Signed{}
	if err := json.Unmarshal(value, c); err != nil {
		return nil, fmt.Errorf("decode checkpoint: %w", err)
	}
	return c, nil
}

// StoreCheckpoint appends the last entry of c to the root log, behind that of a rollback if there is
// one, and stores c, for the owner of record.SigningPartition. KindConflict: another epoch holds it. A
// root log that has not the size before is an error.
func (s *Checkpoints) StoreCheckpoint(
	ctx context.Context, epoch int64, c *record.Signed, back *record.Rollback, pieces []record.Piece,
) error {
	const p = record.SigningPartition
	value, err := json.Marshal(c)
	if err != nil {
		return err
	}
	first, entries, accepted := c.Root.N, []any{}, []byte{}
	if back != nil {
		first--
		entries = append(entries, codec.AppendRollback(nil, &codec.Rollback{At: back.At, Lost: back.Lost, Root: back.Root}))
		if accepted, err = json.Marshal(back); err != nil {
			return err
		}
	}
	e := &codec.RootEntry{At: c.At, Retention: c.Retention, Accounts: c.Accounts, Erased: c.Erased,
		Gone: c.Gone}
	for _, l := range c.Logs {
		e.Sizes = append(e.Sizes, l.N)
	}
	entries = append(entries, codec.AppendRootEntry(nil, e))
	keys := []string{s.EpochKey(p), s.CheckpointKey(p), s.RollbackKey(p), s.RootKey(p)}
	args := append([]any{epoch, value, accepted, first, len(entries)}, entries...)
	for _, piece := range pieces {
		keys = append(keys, s.RootTileKey(p, piece.Level, piece.Tile))
		args = append(args, piece.Offset, piece.Hashes)
	}
	stored, err := s.Durable.Change(ctx, s.ConfirmKey(p), checkpointStoreScript, keys, args...)
	if err != nil {
		return redisclient.Failed(err, "store checkpoint")
	}
	switch n, err := stored.Int(); {
	case err != nil || n == 0:
		return eventlog.ErrNotOwner
	case n < 0:
		return fmt.Errorf("store checkpoint: the root log has not %d entries", first-1)
	}
	return nil
}

// Rollback returns the last rollback that an operator has accepted; nil without one.
func (s *Checkpoints) Rollback(ctx context.Context) (*record.Rollback, error) {
	value, err := s.RDB.Get(ctx, s.RollbackKey(record.SigningPartition)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, redisclient.Failed(err, "read accepted rollback")
	}
	r := &record.Rollback{}
	if err := json.Unmarshal(value, r); err != nil {
		return nil, fmt.Errorf("decode accepted rollback: %w", err)
	}
	return r, nil
}

// AcceptRollback stores that an operator accepts a rollback.
func (s *Checkpoints) AcceptRollback(ctx context.Context, r *record.Rollback) error {
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return redisclient.Failed(s.RDB.Set(ctx, s.RollbackKey(record.SigningPartition), value, 0).Err(), "accept rollback")
}

// StoreCountersigned stores a checkpoint that a witness has signed, unless a newer one of the
// witness is stored. Any node may do so: the signatures were checked, and the order is that of
// the sizes in checkpoints.
func (s *Checkpoints) StoreCountersigned(ctx context.Context, c record.Countersigned) error {
	const p = record.SigningPartition
	_, err := s.Durable.Change(ctx, s.ConfirmKey(p), countersignScript, []string{s.CountersignedKey(p)},
		c.Key, c.Size, c.Note)
	if err != nil {
		return redisclient.Failed(err, "store countersigned checkpoint")
	}
	return nil
}

// Countersigned returns the newest checkpoint that each witness has signed, by public keys, once
// replicas have them.
func (s *Checkpoints) Countersigned(ctx context.Context) (map[string]string, error) {
	const p = record.SigningPartition
	all, err := s.RDB.HGetAll(ctx, s.CountersignedKey(p)).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read countersigned checkpoints")
	}
	return all, s.Reads.Confirm(ctx, s.ConfirmKey(p))
}
