package redisclient

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// slotOf returns the slot of a key with a hash tag.
func slotOf(key string) int {
	tag, _, _ := strings.Cut(strings.TrimPrefix(key, "{"), "}")
	return int(crc16(0, tag)) % clusterSlots
}

// masterOf returns which of n masters has a slot, as redis-cli --cluster create assigns them.
func masterOf(slot, n int) int {
	each, first, cursor := float64(clusterSlots)/float64(n), 0, 0.0
	for master := range n {
		last := int(math.Round(cursor + each - 1))
		if last > clusterSlots || master == n-1 {
			last = clusterSlots - 1
		}
		if slot >= first && slot <= last {
			return master
		}
		first, cursor = last+1, cursor+each
	}
	panic("a slot without a master")
}

// TestEvenKeys pins the tags.
func TestEvenKeys(t *testing.T) {
	t.Parallel()
	k, many := NewKeys(64), NewKeys(1024)
	for got, want := range map[string]string{
		k.EventsKey(0):        "{p00-sa}:events",
		k.EventsKey(7):        "{p07-qb}:events",
		k.OpenKey(63):         "{p63-zy}:open",
		many.OwnerKey(7):      "{p0007-li}:owner",
		many.OwnerKey(1023):   "{p1023-zk}:owner",
		k.AccountsKey():       "{auth-ex}:accounts",
		k.MarketOwnTicksKey(): "{market-vz}:ticks",
		k.MarketTicksKey():    "market:ticks",
		k.NodesKey():          "{node}:live",
		k.WeatherKey("x"):     "{weather}:x",
	} {
		if got != want {
			t.Errorf("key is %q, want %q", got, want)
		}
	}
}

func TestTagsAreDistinct(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 10, 11, 64, 100, 101, 999, MaxPartitions} {
		k, seen := NewKeys(n), map[string]bool{}
		for p := range n {
			seen[k.OpenKey(p)] = true
		}
		if len(seen) != n {
			t.Errorf("%d partitions have %d tags", n, len(seen))
		}
	}
}

// TestMastersHaveEvenShares: at most 1.3 times the mean, and credentials, market and nodes apart.
func TestMastersHaveEvenShares(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{NewClusterPartitions, 64, 128, 256, MaxPartitions} {
		k := NewKeys(partitions)
		for masters := 3; masters <= 12; masters++ {
			shares := make([]int, masters)
			largest := 0
			for p := range partitions {
				m := masterOf(slotOf(k.EventsKey(p)), masters)
				shares[m]++
				largest = max(largest, shares[m])
			}
			ratio := float64(largest) * float64(masters) / float64(partitions)
			t.Logf("%d partitions, %d masters: %.3f %v", partitions, masters, ratio, shares)
			if ratio > 1.3 {
				t.Errorf("%d partitions on %d masters: the largest share is %.2f times the mean: %v",
					partitions, masters, ratio, shares)
			}
			apart := map[int]bool{}
			for _, key := range []string{k.AccountsKey(), k.MarketStateKey(), k.NodesKey()} {
				apart[masterOf(slotOf(key), masters)] = true
			}
			if len(apart) != 3 {
				t.Errorf("of %d masters, credentials, market and nodes have only %d", masters, len(apart))
			}
		}
	}
}

func TestSlotsAreThoseOfRedis(t *testing.T) {
	t.Parallel()
	node := redistest.NewCluster(t, 1).Nodes()[0]
	k := NewKeys(5)
	for _, key := range []string{k.EventsKey(0), k.EventsKey(4), k.AccountsKey(), k.MarketStateKey(), k.NodesKey()} {
		if got, want := slotOf(key), int(node.ClusterKeySlot(t.Context(), key).Val()); got != want {
			t.Errorf("slot of %s is %d, want %d", key, got, want)
		}
	}
}

func BenchmarkEvenTags(b *testing.B) {
	for _, n := range []int{64, MaxPartitions} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				evenTags(n)
			}
		})
	}
}
