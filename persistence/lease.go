package persistence

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

//go:embed scripts/lease_take.lua
var leaseTakeText string

//go:embed scripts/lease_renew.lua
var leaseRenewText string

//go:embed scripts/lease_release.lua
var leaseReleaseText string

var (
	leaseTakeScript    = redis.NewScript(leaseTakeText)
	leaseRenewScript   = redis.NewScript(leaseRenewText)
	leaseReleaseScript = redis.NewScript(leaseReleaseText)
)

// A partition is owned through a lease: a key that expires, with the owner's node
// and epoch. Each new owner gets an epoch greater than all before it, in the script
// that gives it the lease; the epoch's own key never expires. A write that only the
// owner may make compares the epoch first, in its own script, so a former owner
// that does not know better is refused: with KindConflict and code "not_owner".

// leaseValue is what the owner's key holds.
func leaseValue(node string, epoch int64) string { return node + " " + strconv.FormatInt(epoch, 10) }

// TakeLease makes node the owner of partition p for ttl, unless another node is. It
// returns the epoch of the ownership, or 0 and the present owner. A node that holds
// the lease already gets it anew, under a new epoch.
func (s *Store) TakeLease(ctx context.Context, p int, node string, ttl time.Duration) (epoch int64, owner string, err error) {
	answer, err := leaseTakeScript.Run(ctx, s.RDB, []string{redisclient.OwnerKey(p), redisclient.EpochKey(p)}, node, ttl.Milliseconds()).StringSlice()
	if err != nil {
		return 0, "", redisclient.Unavailable(fmt.Errorf("take lease of partition %d: %w", p, err))
	}
	if len(answer) != 2 {
		return 0, "", fmt.Errorf("take lease of partition %d: answer has %d parts", p, len(answer))
	}
	epoch, err = strconv.ParseInt(answer[0], 10, 64)
	if err != nil {
		return 0, "", fmt.Errorf("take lease of partition %d: %w", p, err)
	}
	return epoch, answer[1], nil
}

// RenewLease keeps a lease for ttl from now. KindConflict: it has run out, or
// another owner has it; it must be taken anew.
func (s *Store) RenewLease(ctx context.Context, p int, node string, epoch int64, ttl time.Duration) error {
	held, err := leaseRenewScript.Run(ctx, s.RDB, []string{redisclient.OwnerKey(p)}, leaseValue(node, epoch), ttl.Milliseconds()).Int()
	if err != nil {
		return redisclient.Unavailable(fmt.Errorf("renew lease of partition %d: %w", p, err))
	}
	if held == 0 {
		return errOldEpoch
	}
	return nil
}

// ReleaseLease gives a lease back, so that another node need not wait for its end.
// One that is held no more is left as it is.
func (s *Store) ReleaseLease(ctx context.Context, p int, node string, epoch int64) error {
	if err := leaseReleaseScript.Run(ctx, s.RDB, []string{redisclient.OwnerKey(p)}, leaseValue(node, epoch)).Err(); err != nil {
		return redisclient.Unavailable(fmt.Errorf("release lease of partition %d: %w", p, err))
	}
	return nil
}

// Owner returns the node that owns partition p and its epoch; "" and 0 if none does.
func (s *Store) Owner(ctx context.Context, p int) (node string, epoch int64, err error) {
	value, err := s.RDB.Get(ctx, redisclient.OwnerKey(p)).Result()
	if errors.Is(err, redis.Nil) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, redisclient.Unavailable(fmt.Errorf("read owner of partition %d: %w", p, err))
	}
	if _, err := fmt.Sscanf(value, "%s %d", &node, &epoch); err != nil {
		return "", 0, fmt.Errorf("read owner of partition %d: %q: %w", p, value, err)
	}
	return node, epoch, nil
}
