package partition

import (
	"context"
	"log/slog"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/cluster"
)

// Nodes announces nodes. eventlog.Nodes implements it.
type Nodes interface {
	AnnounceNode(ctx context.Context, node string, ttl time.Duration, singleNode bool) (cluster.Members, error)
	AssignPartitions(ctx context.Context, a cluster.Assignment) (stored bool, err error)
	LeaveNode(ctx context.Context, node string) error
}

// Leases grants partitions to nodes. eventlog.Leases implements it.
type Leases interface {
	TakeLease(ctx context.Context, partition int, node string, ttl time.Duration) (epoch int64, owner string, err error)
	// RenewLeases returns an error for each lease, or nil. KindConflict: it is lost.
	RenewLeases(ctx context.Context, node string, leases []cluster.Lease, ttl time.Duration) []error
	ReleaseLeases(ctx context.Context, node string, leases []cluster.Lease) error
}

// leaveTimeout bounds the Redis commands of an actor that stops.
const leaveTimeout = time.Second

// announcer announces this node to the others, and takes back what it has promised them.
type announcer struct {
	node   string
	store  Store
	lease  time.Duration
	single bool // no other node may use the same Redis
	log    *slog.Logger
}

// timeout bounds an announcement.
func (a *announcer) timeout() time.Duration { return a.lease / 2 }

// announce announces the node for the time of a lease.
func (a *announcer) announce(ctx context.Context) (cluster.Members, error) {
	return a.store.AnnounceNode(ctx, a.node, a.lease, a.single)
}

// withdraw withdraws the node, if Redis answers within leaveTimeout.
func (a *announcer) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := a.store.LeaveNode(ctx, a.node); err != nil {
		a.log.Warn("node is not withdrawn", "err", err)
	}
}

// release gives leases back, if Redis answers within leaveTimeout. If a position is not stored,
// the next owner only handles some events again.
func (a *announcer) release(ctx context.Context, leases ...cluster.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := a.store.ReleaseLeases(ctx, a.node, leases); err != nil {
		a.log.Warn("leases are not released", "partitions", len(leases), "first", leases[0].Partition, "err", err)
	}
}
