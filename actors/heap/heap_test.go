package heap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type item struct{ key, index int }

func newHeap() Heap[*item] {
	return New(func(a, b *item) bool { return a.key < b.key }, func(i *item, index int) { i.index = index })
}

// TestAHeapIsASortedList compares a heap with a list after random changes.
func TestAHeapIsASortedList(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	h := newHeap()
	var list []*item
	for step := range 20_000 {
		switch n := random.IntN(8); {
		case n < 3 || len(list) == 0:
			i := &item{key: random.IntN(100)}
			h.Push(i)
			list = append(list, i)
		case n < 5:
			at := random.IntN(len(list))
			i := list[at]
			h.Remove(i.index)
			if i.index != -1 {
				t.Fatalf("step %d: a removed item has index %d", step, i.index)
			}
			list = slices.Delete(list, at, at+1)
		default:
			i := list[random.IntN(len(list))]
			i.key = random.IntN(100)
			h.Fix(i.index)
		}
		if h.Len() != len(list) {
			t.Fatalf("step %d: %d items, want %d", step, h.Len(), len(list))
		}
		for _, i := range list {
			if h.items[i.index] != i {
				t.Fatalf("step %d: an item is not at its index", step)
			}
		}
		if len(list) > 0 {
			first := slices.MinFunc(list, func(a, b *item) int { return a.key - b.key })
			if got := h.Top().key; got != first.key {
				t.Fatalf("step %d: %d is on top, want %d", step, got, first.key)
			}
		}
	}
}

func TestItemsLeaveInOrder(t *testing.T) {
	t.Parallel()
	h := newHeap()
	for _, key := range rand.Perm(1000) {
		h.Push(&item{key: key})
	}
	for want := range 1000 {
		if got := h.Top().key; got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
		h.Remove(0)
	}
}
