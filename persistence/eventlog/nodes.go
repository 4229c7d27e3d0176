package eventlog

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

//go:embed scripts/node_announce.lua
var nodeAnnounceText string

var nodeAnnounceScript = redis.NewScript(nodeAnnounceText)

// AnnounceNode records that node is live for ttl, and returns all live nodes with it.
// KindConflict, "not_alone": another node is live, and one of the two is a single node.
func (s *Store) AnnounceNode(ctx context.Context, node string, ttl time.Duration, singleNode bool) ([]string, error) {
	mode := "many"
	if singleNode {
		mode = "alone"
	}
	answer, err := nodeAnnounceScript.Run(ctx, s.RDB, []string{redisclient.NodesKey()}, node, mode, ttl.Milliseconds()).StringSlice()
	if err != nil {
		return nil, redisclient.Unavailable(fmt.Errorf("announce node: %w", err))
	}
	if len(answer) < 2 {
		return nil, fmt.Errorf("announce node: answer has %d parts", len(answer))
	}
	if answer[0] == "0" {
		return nil, &signal.Error{Kind: signal.KindConflict, Code: "not_alone",
			Message: fmt.Sprintf("node %s uses the same Redis, and not both have the setting cluster: true: set it for both, stop one, or give one another redis.url", answer[1])}
	}
	live := answer[1:] // in the order in which they renewed
	slices.Sort(live)
	return live, nil
}

// LeaveNode says that node is live no more.
func (s *Store) LeaveNode(ctx context.Context, node string) error {
	if err := s.RDB.ZRem(ctx, redisclient.NodesKey(), node+" many", node+" alone").Err(); err != nil {
		return redisclient.Unavailable(fmt.Errorf("withdraw node: %w", err))
	}
	return nil
}

// installedPartitions is the field of the installation's record that holds the
// number of partitions.
const installedPartitions = "partitions"

// Install records what is fixed at the first start of all and compares it with
// this process' settings. KindConflict: they differ, and this process may not run.
func (s *Store) Install(ctx context.Context) error {
	want := strconv.Itoa(s.Partitions())
	pipe := s.RDB.TxPipeline()
	pipe.HSetNX(ctx, redisclient.InstallationKey(), installedPartitions, want)
	got := pipe.HGet(ctx, redisclient.InstallationKey(), installedPartitions)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return redisclient.Unavailable(fmt.Errorf("read installation: %w", err))
	}
	if got.Val() != want {
		return &signal.Error{Kind: signal.KindConflict, Code: "other_partitions",
			Message: fmt.Sprintf("this Redis was set up with partitions: %s, and the setting says %s: it cannot be changed later", got.Val(), want)}
	}
	return nil
}
