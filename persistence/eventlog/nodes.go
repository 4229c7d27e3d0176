package eventlog

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/cluster"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var (
	nodeAnnounceScript = redisclient.Script(scripts, "node_announce")
	nodeAssignScript   = redisclient.Script(scripts, "node_assign")
)

// The modes of a live node.
const (
	modeAlone    = "alone"    // no other node may run
	modeAssigned = "assigned" // it takes the partitions that it is assigned
	modeHashing  = "many"     // of an earlier build: it takes partitions by the hash of the names
)

// AnnounceNode records that node is live for ttl, and returns the members of the cluster with it.
// KindConflict, "not_alone": another node is live, and one of the two is a single node;
// "other_partitions": Redis holds another installation by now.
func (s *Store) AnnounceNode(
	ctx context.Context, node string, ttl time.Duration, singleNode bool,
) (cluster.Members, error) {
	mode := modeAssigned
	if singleNode {
		mode = modeAlone
	}
	keys, own := []string{s.NodesKey(), s.AssignmentKey(), s.InstallationKey()}, s.Installation().String()
	answer, err := nodeAnnounceScript.Run(ctx, s.RDB, keys, node, mode, ttl.Milliseconds(), own).StringSlice()
	if err != nil {
		return cluster.Members{}, redisclient.Failed(err, "announce node")
	}
	if len(answer) == 2 && answer[0] == "0" {
		return cluster.Members{}, redisclient.Refused("not_alone", fmt.Sprintf("node %s uses the same Redis, and not both "+
			"have the setting cluster: true: set it for both, stop one, or give one another redis.url", answer[1]))
	}
	if len(answer) == 2 && answer[0] == "2" {
		return cluster.Members{}, redisclient.OtherPartitions(answer[1], own)
	}
	const head = 4 // before the members
	if len(answer) <= head {
		return cluster.Members{}, fmt.Errorf("announce node: answer has %d parts", len(answer))
	}
	var m cluster.Members
	for _, member := range answer[head:] { // in the order in which they renewed
		name, mode, _ := strings.Cut(member, " ")
		m.Live = append(m.Live, name)
		m.ByHash = m.ByHash || mode == modeHashing
	}
	slices.Sort(m.Live)
	m.Assignment, err = decodeAssignment(answer[1], answer[2], answer[3])
	return m, err
}

// AssignPartitions stores a and reports whether it did: it does not if the version before a is no
// longer the stored one. Then another node was faster, and the next announcement returns what it
// has stored.
func (s *Store) AssignPartitions(ctx context.Context, a cluster.Assignment) (bool, error) {
	nodes, owners := encodeAssignment(a)
	keys := []string{s.AssignmentKey()}
	stored, err := nodeAssignScript.Run(ctx, s.RDB, keys, a.Version, nodes, owners).Int()
	return stored == 1, redisclient.Failed(err, "assign partitions")
}

// encodeAssignment returns the names of the nodes and, by partition, the number of its owner among
// them, separated by spaces.
func encodeAssignment(a cluster.Assignment) (nodes, owners string) {
	numbers := make([]string, len(a.Owners))
	for p, node := range a.Owners {
		numbers[p] = strconv.Itoa(slices.Index(a.Nodes, node))
	}
	return strings.Join(a.Nodes, " "), strings.Join(numbers, " ")
}

// decodeAssignment is the inverse of encodeAssignment.
func decodeAssignment(version, nodes, owners string) (cluster.Assignment, error) {
	if version == "" {
		return cluster.Assignment{}, nil
	}
	var a cluster.Assignment
	var err error
	if a.Version, err = strconv.ParseInt(version, 10, 64); err != nil {
		return a, fmt.Errorf("read assignment: version %q", version)
	}
	a.Nodes = strings.Fields(nodes)
	for number := range strings.FieldsSeq(owners) {
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= len(a.Nodes) {
			return a, fmt.Errorf("read assignment: owner %q of %d", number, len(a.Nodes))
		}
		a.Owners = append(a.Owners, a.Nodes[i])
	}
	return a, nil
}

// LeaveNode removes node from those that are live.
func (s *Store) LeaveNode(ctx context.Context, node string) error {
	err := s.RDB.ZRem(ctx, s.NodesKey(), node+" "+modeAssigned, node+" "+modeHashing, node+" "+modeAlone).Err()
	return redisclient.Failed(err, "withdraw node")
}

// Install records what the first start of an installation fixes and compares it with the
// settings of this process. KindConflict: they differ, or the server is unfit, and this process may
// not run.
func (s *Store) Install(ctx context.Context) error {
	if err := s.CheckServer(ctx); err != nil {
		return err
	}
	return s.CheckInstallation(ctx)
}
