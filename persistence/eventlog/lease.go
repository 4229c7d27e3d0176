package eventlog

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
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

// Lease is what one node at a time may hold: the ownership of a partition, or the feeding
// of the market. Its key expires and has the holder's node and epoch. Each new holder gets
// an epoch greater than all before it, in the script that gives it the lease; the epoch's
// own key never expires. A write that only the holder may make compares the epoch first,
// in its own script, so that a former holder which has not noticed yet is refused: with
// KindConflict and signal.CodeNotOwner.
type Lease struct {
	client *redisclient.Client
	holder string // key of the holder
	epoch  string // key of the last epoch
	of     string // what it is a lease of, for errors
}

// NewLease returns the lease with the given keys, which lie in one slot.
func NewLease(c *redisclient.Client, holder, epoch, of string) Lease {
	return Lease{client: c, holder: holder, epoch: epoch, of: of}
}

// leaseValue is what the holder's key has.
func leaseValue(node string, epoch int64) string { return node + " " + strconv.FormatInt(epoch, 10) }

// Take gives node the lease for ttl, unless another node holds it. It returns the epoch,
// or 0 and the present holder. A node that holds the lease already gets a new epoch.
func (l Lease) Take(ctx context.Context, node string, ttl time.Duration) (epoch int64, holder string, err error) {
	keys := []string{l.holder, l.epoch}
	answer, err := leaseTakeScript.Run(ctx, l.client.RDB, keys, node, ttl.Milliseconds()).StringSlice()
	if err != nil {
		return 0, "", redisclient.Unavailable(fmt.Errorf("take lease of %s: %w", l.of, err))
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
	held, err := leaseRenewScript.Run(ctx, l.client.RDB, []string{l.holder}, leaseValue(node, epoch), ttl.Milliseconds()).Int()
	if err != nil {
		return redisclient.Unavailable(fmt.Errorf("renew lease of %s: %w", l.of, err))
	}
	if held == 0 {
		return ErrNotOwner
	}
	return nil
}

// Release gives the lease back, so that another node need not wait for its end. One that
// is not held any more is left as it is.
func (l Lease) Release(ctx context.Context, node string, epoch int64) error {
	if err := leaseReleaseScript.Run(ctx, l.client.RDB, []string{l.holder}, leaseValue(node, epoch)).Err(); err != nil {
		return redisclient.Unavailable(fmt.Errorf("release lease of %s: %w", l.of, err))
	}
	return nil
}

// present returns the node that holds the lease and its epoch; "" and 0 if none does. The
// epoch of a market's lease that an earlier version gave is not known: it is 0.
func (l Lease) present(ctx context.Context) (node string, epoch int64, err error) {
	value, err := l.client.RDB.Get(ctx, l.holder).Result()
	if errors.Is(err, redis.Nil) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, redisclient.Unavailable(fmt.Errorf("read holder of %s: %w", l.of, err))
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

// TakeLease makes node the owner of partition p for ttl, unless another node is. It
// returns the epoch of the ownership, or 0 and the present owner. A node that holds
// the lease already gets it under a new epoch.
func (s *Store) TakeLease(ctx context.Context, p int, node string, ttl time.Duration) (epoch int64, owner string, err error) {
	return s.partitionLease(p).Take(ctx, node, ttl)
}

// RenewLease keeps a lease for ttl from now. KindConflict: it has run out, or
// another owner has it; it must be taken again.
func (s *Store) RenewLease(ctx context.Context, p int, node string, epoch int64, ttl time.Duration) error {
	return s.partitionLease(p).Renew(ctx, node, epoch, ttl)
}

// ReleaseLease gives a lease back, so that another node need not wait for its end.
// One that is not held any more is left as it is.
func (s *Store) ReleaseLease(ctx context.Context, p int, node string, epoch int64) error {
	return s.partitionLease(p).Release(ctx, node, epoch)
}

// Owner returns the node that owns partition p and its epoch; "" and 0 if none does.
func (s *Store) Owner(ctx context.Context, p int) (node string, epoch int64, err error) {
	return s.partitionLease(p).present(ctx)
}
