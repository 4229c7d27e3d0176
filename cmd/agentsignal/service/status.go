package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/market"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// ClusterStatus is who owns what, as Redis has it.
type ClusterStatus struct {
	Nodes      []NodeStatus      `json:"nodes"`
	Partitions []PartitionStatus `json:"partitions"`
	// Feeder is the node that feeds the market, or empty.
	Feeder      string `json:"feeder"`
	FeederEpoch int64  `json:"feeder_epoch"`
	// Misfits are sentences about settings in which live nodes, or one of them and the present
	// configuration, disagree.
	Misfits []string `json:"misfits"`
}

// NodeStatus is a live node.
type NodeStatus struct {
	Node string `json:"node"`
	Mode string `json:"mode"` // single or cluster
	// AnnouncedMS is how long ago the node has announced itself.
	AnnouncedMS int64 `json:"announced_ms"`
	Owns        int   `json:"owns"` // partitions, by their leases
	// Follows has, by reason, the partitions whose events the node reads: because it owns them, a
	// connection of one of their accounts is there (streams), their signals are listed there (lists), or
	// a caller waits for an event (waits). Nil if the node has not published it yet.
	Follows map[string][]int `json:"follows"`
}

// PartitionStatus is a partition.
type PartitionStatus struct {
	Partition int    `json:"partition"`
	Assigned  string `json:"assigned"` // the node that should own it, or empty
	Owner     string `json:"owner"`    // by its lease, or empty
	Epoch     int64  `json:"epoch"`
	// Since is when the owner became owner under this epoch, in RFC 3339; empty if it has not published
	// that yet.
	Since string `json:"since"`
	// Position is up to where events have had their effect, LagMS the age of the oldest event
	// behind it.
	Position string `json:"position"`
	LagMS    int64  `json:"lag_ms"`
}

// Ownerless returns the numbers of the partitions without an owner.
func (c *ClusterStatus) Ownerless() []int {
	var list []int
	for _, p := range c.Partitions {
		if p.Owner == "" {
			list = append(list, p.Partition)
		}
	}
	return list
}

// ReadClusterStatus reads the status from the Redis of c, and changes nothing there.
func ReadClusterStatus(ctx context.Context, c configs.Config) (status ClusterStatus, err error) {
	err = openStore(ctx, c, redisclient.Existing, false, func(ctx context.Context, store *persistence.Store) error {
		ctx, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		if err := store.Client.SyncClock(ctx); err != nil {
			return err
		}
		if err := store.Client.Installation.CheckFormats(ctx); err != nil {
			return err
		}
		status, err = ReadStatus(ctx, store, c)
		return err
	})
	return status, err
}

// ReadStatus returns the state of the installation of a store.
func ReadStatus(ctx context.Context, store *persistence.Store, c configs.Config) (ClusterStatus, error) {
	status := ClusterStatus{Nodes: []NodeStatus{}, Misfits: []string{}}
	nodes, assignment, err := store.Logs.Nodes.List(ctx)
	if err != nil {
		return status, err
	}
	owns := map[string]int{}
	for n := range store.Client.Partitions() {
		p, err := partitionStatus(ctx, store, n)
		if err != nil {
			return status, err
		}
		if n < len(assignment.Owners) {
			p.Assigned = assignment.Owners[n]
		}
		owns[p.Owner]++
		status.Partitions = append(status.Partitions, p)
	}
	if status.Feeder, status.FeederEpoch, err = market.New(store.Client).Feeder(ctx); err != nil {
		return status, err
	}
	for i := range nodes {
		n := &nodes[i]
		left := n.Until.Sub(store.Client.Now())
		status.Nodes = append(status.Nodes, NodeStatus{Node: n.ID, Mode: modeNames[n.Mode], Owns: owns[n.ID],
			AnnouncedMS: max(0, leaseOf(n, c)-left).Milliseconds(), Follows: follows(n)})
		for _, f := range n.Followed {
			if f.Partition < len(status.Partitions) {
				status.Partitions[f.Partition].since(n.ID, f)
			}
		}
	}
	status.Misfits = append(status.Misfits, misfits(nodes, c)...)
	return status, nil
}

// follows returns the partitions that a node follows, by reason.
func follows(n *cluster.Node) map[string][]int {
	if n.Followed == nil {
		return nil
	}
	byReason := map[string][]int{}
	for _, f := range n.Followed {
		for _, r := range f.Reasons {
			byReason[r] = append(byReason[r], f.Partition)
		}
	}
	return byReason
}

// since notes since when node owns p, if that is the lease that it holds.
func (p *PartitionStatus) since(node string, f cluster.Followed) {
	if p.Owner == node && p.Epoch == f.Epoch && f.Epoch != 0 {
		p.Since = f.Since.Format(time.RFC3339)
	}
}

// modeNames are the modes as they are printed.
var modeNames = map[string]string{cluster.ModeAlone: "single", cluster.ModeAssigned: "cluster"}

func partitionStatus(ctx context.Context, store *persistence.Store, n int) (PartitionStatus, error) {
	p := PartitionStatus{Partition: n}
	var err error
	if p.Owner, p.Epoch, err = store.Logs.Leases.Owner(ctx, n); err != nil {
		return p, err
	}
	var position signal.Position
	var lag time.Duration
	if position, lag, err = store.Logs.Positions.Lag(ctx, n); err != nil {
		return p, err
	}
	p.Position, p.LagMS = position.String(), lag.Milliseconds()
	return p, nil
}

// leaseOf returns how long an announcement of n counts: its lease, or the configured one if it is of
// a build that does not publish it.
func leaseOf(n *cluster.Node, c configs.Config) time.Duration {
	for _, t := range n.Traits {
		if t.Setting == settingLease {
			if d, err := time.ParseDuration(t.Values[0]); err == nil {
				return d
			}
		}
	}
	return time.Duration(c.Lease)
}

// misfits returns a sentence for each setting in which two of the nodes, or one of them and c,
// disagree.
func misfits(nodes []cluster.Node, c configs.Config) []string {
	traits := traitsOf(c)
	for _, given := range []struct {
		setting string
		list    configs.Secret
	}{{settingJWTKeys, c.Auth.JWTKeys}, {settingEncryptionKeys, c.Security.EncryptionKeys}} {
		if keys, err := configs.ParseKeys(string(given.list)); err == nil && len(keys) > 0 {
			traits = append(traits, keyTrait(given.setting, keys))
		}
	}
	all := append(slices.Clone(nodes), cluster.Node{ID: "this configuration", Traits: traits})
	var list []string
	for i := range all {
		for j := i + 1; j < len(all); j++ {
			for _, setting := range cluster.Misfits(all[i].Traits, all[j].Traits) {
				list = append(list, fmt.Sprintf("%s: %s and %s", setting, valuesOf(&all[i], setting), valuesOf(&all[j], setting)))
			}
		}
	}
	return list
}

// valuesOf returns the node and its values of a setting, without those that stand for keys.
func valuesOf(n *cluster.Node, setting string) string {
	for _, t := range n.Traits {
		if t.Setting == setting && !strings.HasSuffix(setting, "_keys") {
			return n.ID + " has " + strings.Join(t.Values, " ")
		}
	}
	return n.ID + " has other keys"
}
