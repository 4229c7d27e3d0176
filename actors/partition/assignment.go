package partition

import (
	"cmp"
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal/cluster"
)

// assign returns an assignment of partitions to the live nodes, which are sorted. Shares differ by
// at most one partition, and of all such assignments it is one with the fewest moves from
// before. Any process that has the same assignment and the same nodes gets the same result.
func assign(before cluster.Assignment, live []string, partitions int) cluster.Assignment {
	next := cluster.Assignment{Version: before.Version + 1, Nodes: live, Owners: make([]string, partitions)}
	if len(live) == 0 {
		return next
	}
	held := make(map[string]int, len(live))
	for _, node := range live {
		held[node] = 0
	}
	for p, node := range before.Owners {
		if _, alive := held[node]; alive && p < partitions {
			next.Owners[p] = node
			held[node]++
		}
	}
	// Those who hold most may have one more than the others, so that fewest partitions move.
	byShare := slices.Clone(live)
	slices.SortStableFunc(byShare, func(a, b string) int { return cmp.Compare(held[b], held[a]) })
	room := make(map[string]int, len(live)) // negative: must give so many away
	for i, node := range byShare {
		share := partitions / len(live)
		if i < partitions%len(live) {
			share++
		}
		room[node] = share - held[node]
	}
	for p := partitions - 1; p >= 0; p-- {
		if node := next.Owners[p]; node != "" && room[node] < 0 {
			next.Owners[p] = ""
			room[node]++
		}
	}
	// In turns, so that a node that joins gets partitions of different numbers.
	turn := 0
	for p := range next.Owners {
		if next.Owners[p] != "" {
			continue
		}
		for room[byShare[turn%len(byShare)]] <= 0 {
			turn++
		}
		node := byShare[turn%len(byShare)]
		next.Owners[p] = node
		room[node]--
		turn++
	}
	return next
}
