package leaves

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// StoreCountersigned stores a checkpoint that a witness has signed, unless a newer one of the
// witness is stored. Any node may do so: the signatures were checked, and the order is that of
// the times in checkpoints.
func (s *Store) StoreCountersigned(ctx context.Context, c record.Countersigned) error {
	const p = record.SigningPartition
	_, err := s.Change(ctx, s.ConfirmKey(p), countersignScript, []string{s.CountersignedKey(p)},
		c.Key, c.At.UTC().Format(time.RFC3339), c.Note)
	if err != nil {
		return redisclient.Failed(err, "store countersigned checkpoint")
	}
	return nil
}

// Countersigned returns the newest checkpoint that each witness has signed, by public keys, once
// replicas have them.
func (s *Store) Countersigned(ctx context.Context) (map[string]string, error) {
	const p = record.SigningPartition
	all, err := s.RDB.HGetAll(ctx, s.CountersignedKey(p)).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read countersigned checkpoints")
	}
	return all, s.ConfirmRead(ctx, s.ConfirmKey(p))
}
