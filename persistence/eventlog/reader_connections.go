package eventlog

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// readersFor is how long the numbers of a node count after it has published for the last time.
const readersFor = 5 * time.Second

// ReaderConnections shares with other nodes how many connections each reader has on this node. It implements
// dashboard.OtherNodes.
type ReaderConnections struct {
	client *redisclient.Client
	node   string

	mu      sync.Mutex
	counts  map[signal.KeyID]int
	changed map[signal.KeyID]bool
	whole   bool // Redis may have other numbers than these
}

// NewReaderConnections returns the numbers of a node.
func NewReaderConnections(c *redisclient.Client, node string) *ReaderConnections {
	return &ReaderConnections{client: c, node: node,
		counts: make(map[signal.KeyID]int), changed: make(map[signal.KeyID]bool), whole: true}
}

// Share implements dashboard.OtherNodes. Publish stores it.
func (r *ReaderConnections) Share(key signal.KeyID, connections int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed[key] = true; connections == 0 {
		delete(r.counts, key)
	} else {
		r.counts[key] = connections
	}
}

// Elsewhere implements dashboard.OtherNodes.
func (r *ReaderConnections) Elsewhere(ctx context.Context, keys ...signal.KeyID) (map[signal.KeyID]int, error) {
	now := strconv.FormatInt(r.client.Now().UnixMilli(), 10)
	live, err := r.client.RDB.ZRangeByScore(ctx, r.client.NodesKey(), &redis.ZRangeBy{Min: "(" + now, Max: "+inf"}).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read nodes")
	}
	fields := make([]string, len(keys))
	for i, key := range keys {
		fields[i] = string(key)
	}
	var answers []*redis.SliceCmd
	pipe := r.client.RDB.Pipeline()
	for _, member := range live {
		if node, _, _ := strings.Cut(member, " "); node != r.node && len(keys) > 0 {
			answers = append(answers, pipe.HMGet(ctx, r.client.NodeReadersKey(node), fields...))
		}
	}
	elsewhere := make(map[signal.KeyID]int)
	if len(answers) == 0 {
		return elsewhere, nil
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.Failed(err, "read connections of readers")
	}
	for _, a := range answers {
		for i, value := range a.Val() {
			text, _ := value.(string)
			if n, err := strconv.Atoi(text); err == nil {
				elsewhere[keys[i]] += n
			}
		}
	}
	return elsewhere, nil
}

// Publish stores what has changed, and keeps the rest from expiring.
func (r *ReaderConnections) Publish(ctx context.Context) error {
	r.mu.Lock()
	key, whole := r.client.NodeReadersKey(r.node), r.whole
	ids := slices.Collect(maps.Keys(r.changed))
	if whole {
		ids = slices.Collect(maps.Keys(r.counts))
	}
	var set, gone []string
	for _, id := range ids {
		if n := r.counts[id]; n > 0 {
			set = append(set, string(id), strconv.Itoa(n))
		} else {
			gone = append(gone, string(id))
		}
	}
	some := len(r.counts) > 0
	clear(r.changed)
	r.whole = false
	r.mu.Unlock()
	if len(ids) == 0 && !some && !whole {
		return nil
	}

	pipe := r.client.RDB.TxPipeline()
	if whole {
		pipe.Del(ctx, key)
	}
	if len(set) > 0 {
		pipe.HSet(ctx, key, set)
	}
	if len(gone) > 0 {
		pipe.HDel(ctx, key, gone...)
	}
	kept := pipe.PExpire(ctx, key, readersFor)
	err := redisclient.Execute(ctx, pipe)
	if err != nil || some && !kept.Val() {
		r.mu.Lock()
		r.whole = true // next time
		r.mu.Unlock()
	}
	return redisclient.Failed(err, "publish connections of readers")
}
