package eventlog

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var nodeAnnounceScript = redisclient.Script(scripts, "node_announce")

// AnnounceNode records that node is live for ttl, and returns all live nodes with it.
// KindConflict, "not_alone": another node is live, and one of the two is a single node.
func (s *Store) AnnounceNode(ctx context.Context, node string, ttl time.Duration, singleNode bool) ([]string, error) {
	mode := "many"
	if singleNode {
		mode = "alone"
	}
	keys := []string{redisclient.NodesKey()}
	answer, err := nodeAnnounceScript.Run(ctx, s.RDB, keys, node, mode, ttl.Milliseconds()).StringSlice()
	if err != nil {
		return nil, redisclient.Failed(err, "announce node")
	}
	if len(answer) < 2 {
		return nil, fmt.Errorf("announce node: answer has %d parts", len(answer))
	}
	if answer[0] == "0" {
		return nil, redisclient.Refused("not_alone", fmt.Sprintf("node %s uses the same Redis, and not both have the "+
			"setting cluster: true: set it for both, stop one, or give one another redis.url", answer[1]))
	}
	live := answer[1:] // in the order in which they renewed
	slices.Sort(live)
	return live, nil
}

// LeaveNode removes node from those that are live.
func (s *Store) LeaveNode(ctx context.Context, node string) error {
	err := s.RDB.ZRem(ctx, redisclient.NodesKey(), node+" many", node+" alone").Err()
	return redisclient.Failed(err, "withdraw node")
}

// installedPartitions is the field of the installation's record that holds the
// number of partitions.
const installedPartitions = "partitions"

// Install records what the first start of an installation fixes and compares it with the
// settings of this process. KindConflict: they differ, and this process may not run.
func (s *Store) Install(ctx context.Context) error {
	want := strconv.Itoa(s.Partitions())
	pipe := s.RDB.TxPipeline()
	pipe.HSetNX(ctx, redisclient.InstallationKey(), installedPartitions, want)
	got := pipe.HGet(ctx, redisclient.InstallationKey(), installedPartitions)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return redisclient.Failed(err, "read installation")
	}
	if got.Val() != want {
		return redisclient.Refused("other_partitions", fmt.Sprintf("this Redis was set up with partitions: %s, and "+
			"the setting says %s: it cannot be changed later", got.Val(), want))
	}
	return nil
}
