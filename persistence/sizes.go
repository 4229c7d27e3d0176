package persistence

import (
	"context"
	"regexp"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	// sizedKeys is how many keys are measured at each update of the gauges, and sizedAtOnce how
	// many in one pipeline: between two pipelines Redis serves other clients.
	sizedKeys   = 10_000
	sizedAtOnce = 500
	// otherKeys is the label of keys outside the partitions.
	otherKeys = "other"
)

// sizes measures the bytes of Redis that the keys of each partition take. A pass over all keys
// takes several updates; the gauges show the newest complete pass.
type sizes struct {
	bytes *prometheus.GaugeVec

	mu      sync.Mutex
	refused bool               // Redis cannot measure, or refuses this user
	master  int                // index of the cluster's master in the pass
	cursor  uint64             // on that master
	found   map[string]float64 // bytes of the pass so far, by partition
}

func newSizes(r prometheus.Registerer) *sizes {
	z := &sizes{found: map[string]float64{}, bytes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "agentsignal_redis_bytes", Help: "Bytes of Redis that the keys of a partition take, " +
			"estimated from samples of each key. The same in every process."}, []string{"partition"})}
	r.MustRegister(z.bytes)
	return z
}

// update continues the pass by at most limit keys.
func (z *sizes) update(ctx context.Context, c *redisclient.Client, limit int) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.refused {
		return nil
	}
	masters, err := c.Servers.Masters(ctx)
	if err != nil {
		return redisclient.Failed(err, "list servers")
	}
	for n := 0; n < limit; {
		if z.master >= len(masters) {
			z.publish()
			return nil
		}
		keys, next, err := masters[z.master].Scan(ctx, z.cursor, "", sizedAtOnce).Result()
		if err == nil {
			err = z.measure(ctx, masters[z.master], keys)
		}
		reason, _ := redisclient.Refusal(err)
		if reason == redisclient.LacksRights || redis.HasErrorPrefix(err, "unknown command") {
			z.refused = true
			c.Log.Info("bytes of partitions are not measured: Redis refuses", "component", "persistence", "err", err)
			return nil
		}
		if err != nil {
			return redisclient.Failed(err, "measure keys")
		}
		n += max(len(keys), 1)
		if z.cursor = next; next == 0 {
			z.master++
		}
	}
	return nil
}

// measure adds the bytes of keys, some of which may have expired.
func (z *sizes) measure(ctx context.Context, server redis.Cmdable, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	pipe := server.Pipeline()
	used := make([]*redis.IntCmd, len(keys))
	for i, key := range keys {
		used[i] = pipe.MemoryUsage(ctx, key)
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return err
	}
	for i, key := range keys {
		z.found[partitionLabel(key)] += float64(used[i].Val())
	}
	return nil
}

// tagOfPartition matches the hash tag of a partition: its number, and the letters of an even name.
var tagOfPartition = regexp.MustCompile(`^\{p(\d{2,4})(?:-[a-z]{2})?\}:`)

// partitionLabel returns the partition of a key, in at least two digits.
func partitionLabel(key string) string {
	if m := tagOfPartition.FindStringSubmatch(key); m != nil {
		return m[1]
	}
	return otherKeys
}

// publish sets the gauges to the result of the pass, and starts the next pass.
func (z *sizes) publish() {
	z.bytes.Reset()
	for partition, bytes := range z.found {
		z.bytes.WithLabelValues(partition).Set(bytes)
	}
	z.master, z.cursor, z.found = 0, 0, map[string]float64{}
}
