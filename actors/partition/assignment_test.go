package partition

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal/cluster"
)

// TestAssignmentsAreEven: in random clusters in which nodes join and leave, no node owns more than
// the mean, rounded up, or less than the mean, rounded down, and no partition moves without need.
func TestAssignmentsAreEven(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 13))
		partitions := 1 + r.IntN(200)
		var live []string
		var a cluster.Assignment
		for change := range 12 {
			live = slices.Clone(live)
			for range 1 + r.IntN(2) {
				if len(live) > 1 && r.IntN(2) == 0 {
					i := r.IntN(len(live))
					live = slices.Delete(live, i, i+1)
				} else {
					live = append(live, fmt.Sprintf("node_%x", r.Uint64()))
				}
			}
			slices.Sort(live)
			next := assign(a, live, partitions)
			if err := even(next, live, partitions); err != nil {
				t.Fatalf("seed %d, change %d: %v", seed, change, err)
			}
			if moved, must := moves(a, next), necessary(a, live, partitions); moved != must {
				t.Fatalf("seed %d, change %d: %d of %d partitions moved to %d nodes, %d must",
					seed, change, moved, partitions, len(live), must)
			}
			if again := assign(next, live, partitions); moves(next, again) != 0 {
				t.Fatalf("seed %d: partitions move though no node has", seed)
			}
			a = next
		}
	}
}

func even(a cluster.Assignment, live []string, partitions int) error {
	share := map[string]int{}
	for p, node := range a.Owners {
		if !slices.Contains(live, node) {
			return fmt.Errorf("partition %d belongs to %q", p, node)
		}
		share[node]++
	}
	least, most := partitions/len(live), (partitions+len(live)-1)/len(live)
	for _, node := range live {
		if share[node] < least || share[node] > most {
			return fmt.Errorf("a node of %d owns %d of %d partitions", len(live), share[node], partitions)
		}
	}
	return nil
}

// moves counts the partitions that had an owner and have another one.
func moves(before, after cluster.Assignment) int {
	n := 0
	for p, node := range before.Owners {
		if node != after.Owners[p] {
			n++
		}
	}
	return n
}

// necessary returns the least number of moves to an even assignment: partitions of nodes that
// have left, and those above the largest shares, given to the nodes that hold most.
func necessary(before cluster.Assignment, live []string, partitions int) int {
	held := map[string]int{}
	n := 0
	for _, node := range before.Owners {
		if slices.Contains(live, node) {
			held[node]++
		} else {
			n++
		}
	}
	var counts []int
	for _, node := range live {
		counts = append(counts, held[node])
	}
	slices.Sort(counts)
	slices.Reverse(counts)
	for i, count := range counts {
		share := partitions / len(live)
		if i < partitions%len(live) {
			share++
		}
		n += max(0, count-share)
	}
	return n
}

func TestNothingIsAssignedWithoutNodes(t *testing.T) {
	t.Parallel()
	a := assign(cluster.Assignment{}, nil, 3)
	wantEqual(t, "owners", []string{"", "", ""}, a.Owners)
	a = assign(a, []string{"b"}, 3)
	wantEqual(t, "owners", []string{"b", "b", "b"}, a.Owners)
	if a.Version != 2 {
		t.Errorf("version %d", a.Version)
	}
}
