package eventlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal/cluster"
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
	held, err := leaseRenewScript.Run(ctx, l.client.RDB, keys, ttl.Milliseconds(), leaseValue(node, epoch)).Int64Slice()
	if err == nil && !slices.Equal(held, []int64{1}) {
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

// Holder returns the node that holds the lease and its epoch, or "" and 0.
func (l Lease) Holder(ctx context.Context) (node string, epoch int64, err error) {
	value, err := l.client.RDB.Get(ctx, l.holder).Result()
	if errors.Is(err, redis.Nil) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, redisclient.Failed(err, "read holder of %s", l.of)
	}
	node, number, _ := strings.Cut(value, " ")
	if epoch, err = strconv.ParseInt(number, 10, 64); err != nil {
		return "", 0, fmt.Errorf("read holder of %s: %q: %w", l.of, value, err)
	}
	return node, epoch, nil
}

// Leases are those of the partitions. The holder of one is the owner of the partition.
type Leases struct{ client *redisclient.Client }

// partition returns the lease of partition p.
func (l *Leases) partition(p int) Lease {
	return NewLease(l.client, l.client.OwnerKey(p), l.client.EpochKey(p), "partition "+strconv.Itoa(p))
}

// TakeLease is Take for the lease of partition p.
func (l *Leases) TakeLease(ctx context.Context, p int, node string, ttl time.Duration) (
	epoch int64, owner string, err error) {
	return l.partition(p).Take(ctx, node, ttl)
}

// RenewLeases keeps leases of partitions for ttl from now, in one round trip to each server. It
// returns an error for each, or nil. CodeNotOwner: it must be taken again.
func (l *Leases) RenewLeases(ctx context.Context, node string, leases []cluster.Lease, ttl time.Duration) []error {
	pipe := l.client.RDB.Pipeline()
	var renewals []renewal
	for group := range together(l.client.RDB, leases) {
		r := renewal{args: []any{ttl.Milliseconds()}}
		for _, lease := range group {
			r.keys = append(r.keys, l.client.OwnerKey(lease.Partition))
			r.args = append(r.args, leaseValue(node, lease.Epoch))
		}
		r.reply = leaseRenewScript.EvalSha(ctx, pipe, r.keys, r.args...)
		renewals = append(renewals, r)
	}
	_ = redisclient.Execute(ctx, pipe) // each command has its own error
	errs := make([]error, 0, len(leases))
	for _, r := range renewals {
		if redis.HasErrorPrefix(r.reply.Err(), "NOSCRIPT") { // a server that was restarted
			r.reply = leaseRenewScript.Eval(ctx, l.client.RDB, r.keys, r.args...)
		}
		errs = append(errs, r.errors()...)
	}
	return errs
}

// together groups partitions, or leases of them, that one command may concern: all, or on a Redis
// Cluster, where partitions lie in different slots, each by itself.
func together[T any](client redis.UniversalClient, partitions []T) iter.Seq[[]T] {
	size := len(partitions)
	if _, clustered := client.(*redis.ClusterClient); clustered {
		size = 1
	}
	return slices.Chunk(partitions, max(size, 1))
}

// renewal is one call of leaseRenewScript.
type renewal struct {
	keys  []string
	args  []any
	reply *redis.Cmd
}

// errors returns the result of each lease.
func (r renewal) errors() []error {
	errs := make([]error, len(r.keys))
	held, err := r.reply.Int64Slice()
	if err == nil && len(held) != len(errs) {
		err = fmt.Errorf("answer has %d parts", len(held))
	}
	for i := range errs {
		switch {
		case err != nil:
			errs[i] = redisclient.Failed(err, "renew leases")
		case held[i] == 0:
			errs[i] = ErrNotOwner
		}
	}
	return errs
}

// ReleaseLease is Release for the lease of partition p.
func (l *Leases) ReleaseLease(ctx context.Context, p int, node string, epoch int64) error {
	return l.partition(p).Release(ctx, node, epoch)
}

// ReleaseLeases stores the positions of leases and gives these back, in one round trip to each
// server. A lease that node no longer holds stays as it is, and so does its position.
func (l *Leases) ReleaseLeases(ctx context.Context, node string, leases []cluster.Lease) error {
	pipe := l.client.RDB.Pipeline()
	for _, lease := range leases {
		if !lease.Position.IsZero() {
			keys := positionKeys(l.client.Keys, lease.Partition)
			positionStoreScript.Eval(ctx, pipe, keys, lease.Epoch, lease.Position.String())
		}
		leaseReleaseScript.Eval(ctx, pipe, []string{l.client.OwnerKey(lease.Partition)}, leaseValue(node, lease.Epoch))
	}
	return redisclient.Failed(redisclient.Execute(ctx, pipe), "release leases")
}

// Owner returns the node that owns partition p and its epoch, or "" and 0.
func (l *Leases) Owner(ctx context.Context, p int) (node string, epoch int64, err error) {
	return l.partition(p).Holder(ctx)
}
