package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var (
	leaseTakeScript    = redisclient.Script(scripts, "lease_take")
	leaseRenewScript   = redisclient.Script(scripts, "lease_renew")
	leaseReleaseScript = redisclient.Script(scripts, "lease_release")
)

// Lease is held by one node at a time: the ownership of a partition, or the feeding of the
// market. Its key expires and has the holder's node and epoch. Each new holder gets an epoch
// greater than all before it, in the script that gives it the lease; the epoch's own key
// never expires. A write that only the holder may make compares the epoch in its own script,
// so that a former holder is refused, with KindConflict and signal.CodeNotOwner, even before
// it has noticed.
type Lease struct {
	client *redisclient.Client
	holder string // key of the holder
	epoch  string // key of the last epoch
	of     string // name of the leased resource, for errors
}

// NewLease returns the lease with the given keys, which lie in one slot.
func NewLease(c *redisclient.Client, holder, epoch, of string) Lease {
	return Lease{client: c, holder: holder, epoch: epoch, of: of}
}

// leaseValue returns the value of the holder's key.
func leaseValue(node string, epoch int64) string { return node + " " + strconv.FormatInt(epoch, 10) }

// Take gives node the lease for ttl unless another node holds it. It returns the epoch, or 0
// and the present holder. A node that holds the lease already gets a new epoch.
func (l Lease) Take(ctx context.Context, node string, ttl time.Duration) (epoch int64, holder string, err error) {
	keys := []string{l.holder, l.epoch}
	answer, err := leaseTakeScript.Run(ctx, l.client.RDB, keys, node, ttl.Milliseconds()).StringSlice()
	if err != nil {
		return 0, "", redisclient.Failed(err, "take lease of %s", l.of)
	}
	if len(answer) != 2 {
		return 0, "", fmt.Errorf("take lease of %s: answer has %d parts", l.of, len(answer))
	}
	epoch, err = strconv.ParseInt(answer[0], 10, 64)
	if err != nil {
		return 0, "", fmt.Errorf("take lease of %s: %w", l.of, err)
	}
	return epoch, answer[1], nil
}

// Renew keeps the lease for ttl from now. CodeNotOwner: it has run out, or another holder
// has it; it must be taken again.
func (l Lease) Renew(ctx context.Context, node string, epoch int64, ttl time.Duration) error {
	keys := []string{l.holder}
	held, err := leaseRenewScript.Run(ctx, l.client.RDB, keys, leaseValue(node, epoch), ttl.Milliseconds()).Int()
	if err == nil && held == 0 {
		return ErrNotOwner
	}
	return redisclient.Failed(err, "renew lease of %s", l.of)
}

// Release gives the lease back, so that another node need not wait for its end. A lease that
// node no longer holds stays as it is.
func (l Lease) Release(ctx context.Context, node string, epoch int64) error {
	err := leaseReleaseScript.Run(ctx, l.client.RDB, []string{l.holder}, leaseValue(node, epoch)).Err()
	return redisclient.Failed(err, "release lease of %s", l.of)
}

// Holder returns the node that holds the lease and its epoch, or "" and 0. A lease of the
// market that an earlier version gave has the epoch 0.
func (l Lease) Holder(ctx context.Context) (node string, epoch int64, err error) {
	value, err := l.client.RDB.Get(ctx, l.holder).Result()
	if errors.Is(err, redis.Nil) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, redisclient.Failed(err, "read holder of %s", l.of)
	}
	node, number, numbered := strings.Cut(value, " ")
	if !numbered {
		return node, 0, nil
	}
	if epoch, err = strconv.ParseInt(number, 10, 64); err != nil {
		return "", 0, fmt.Errorf("read holder of %s: %q: %w", l.of, value, err)
	}
	return node, epoch, nil
}

// partitionLease returns the lease of partition p.
func (s *Store) partitionLease(p int) Lease {
	return NewLease(s.Client, redisclient.OwnerKey(p), redisclient.EpochKey(p), "partition "+strconv.Itoa(p))
}

// TakeLease is Take for the lease of partition p: its holder is the owner.
func (s *Store) TakeLease(ctx context.Context, p int, node string, ttl time.Duration) (
	epoch int64, owner string, err error) {
	return s.partitionLease(p).Take(ctx, node, ttl)
}

// RenewLease is Renew for the lease of partition p.
func (s *Store) RenewLease(ctx context.Context, p int, node string, epoch int64, ttl time.Duration) error {
	return s.partitionLease(p).Renew(ctx, node, epoch, ttl)
}

// ReleaseLease is Release for the lease of partition p.
func (s *Store) ReleaseLease(ctx context.Context, p int, node string, epoch int64) error {
	return s.partitionLease(p).Release(ctx, node, epoch)
}

// Owner returns the node that owns partition p and its epoch, or "" and 0.
func (s *Store) Owner(ctx context.Context, p int) (node string, epoch int64, err error) {
	return s.partitionLease(p).Holder(ctx)
}
