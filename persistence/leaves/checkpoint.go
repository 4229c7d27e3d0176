package leaves

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Checkpoints are the newest signed heads of all Merkle logs, and those that witnesses have signed.
type Checkpoints struct{ *redisclient.Client }

// Checkpoint returns the newest checkpoint, once replicas have it: the signed note, and what it
// says. KindNotFound: nothing has been signed yet.
func (s *Checkpoints) Checkpoint(ctx context.Context) ([]byte, *verify.Checkpoint, error) {
	const p = record.SigningPartition
	signed, err := s.RDB.Get(ctx, s.CheckpointKey(p)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil, signal.NotFound("checkpoint")
	}
	if err != nil {
		return nil, nil, redisclient.Failed(err, "read checkpoint")
	}
	if err := s.Reads.Confirm(ctx, s.ConfirmKey(p)); err != nil {
		return nil, nil, err
	}
	c, err := record.ReadCheckpoint(signed)
	return signed, c, err
}

// StoreCheckpoint stores a checkpoint for the owner of record.SigningPartition. KindConflict:
// another epoch holds it.
func (s *Checkpoints) StoreCheckpoint(ctx context.Context, epoch int64, signed []byte) error {
	keys := []string{s.EpochKey(record.SigningPartition), s.CheckpointKey(record.SigningPartition)}
	stored, err := s.Durable.Change(ctx, s.ConfirmKey(record.SigningPartition), checkpointStoreScript, keys, epoch, signed)
	if err != nil {
		return redisclient.Failed(err, "store checkpoint")
	}
	if n, err := stored.Int(); err != nil || n == 0 {
		return eventlog.ErrNotOwner
	}
	return nil
}

// StoreCountersigned stores a checkpoint that a witness has signed, unless a newer one of the
// witness is stored. Any node may do so: the signatures were checked, and the order is that of
// the times in checkpoints.
func (s *Checkpoints) StoreCountersigned(ctx context.Context, c record.Countersigned) error {
	const p = record.SigningPartition
	_, err := s.Durable.Change(ctx, s.ConfirmKey(p), countersignScript, []string{s.CountersignedKey(p)},
		c.Key, c.At.UTC().Format(time.RFC3339), c.Note)
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
