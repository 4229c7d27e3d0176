// Package heap is a typed container/heap whose items know their index, so that any of them
// can be moved or removed.
package heap

import (
	"iter"
	"slices"
)

// Heap is a binary heap. New makes one. It is not safe for concurrent use.
type Heap[T any] struct {
	items  []T
	before func(a, b T) bool
	placed func(item T, index int)
}

// New returns an empty heap, ordered by before. placed is called with each item whose index
// changes, and with -1 for a removed one.
func New[T any](before func(a, b T) bool, placed func(item T, index int)) Heap[T] {
	return Heap[T]{before: before, placed: placed}
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// Top returns the first item, at index 0. The heap must not be empty.
func (h *Heap[T]) Top() T { return h.items[0] }

// All returns the items by index. The heap must not change during the iteration.
func (h *Heap[T]) All() iter.Seq[T] { return slices.Values(h.items) }

// Push adds an item.
func (h *Heap[T]) Push(item T) {
	h.items = append(h.items, item)
	h.up(len(h.items) - 1)
}

// Remove removes the item at index i.
func (h *Heap[T]) Remove(i int) {
	last := len(h.items) - 1
	removed, moved := h.items[i], h.items[last]
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	if i != last {
		h.items[i] = moved
		h.Fix(i)
	}
	h.placed(removed, -1)
}

// Fix restores the order after the item at index i has changed.
func (h *Heap[T]) Fix(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

// up moves the item at index i up while it is before its parent.
func (h *Heap[T]) up(i int) {
	item := h.items[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(item, h.items[parent]) {
			break
		}
		h.put(i, h.items[parent])
		i = parent
	}
	h.put(i, item)
}

// down moves the item at index i down while a child is before it, and reports whether it
// moved.
func (h *Heap[T]) down(i int) bool {
	item, from := h.items[i], i
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if right := child + 1; right < len(h.items) && h.before(h.items[right], h.items[child]) {
			child = right
		}
		if !h.before(h.items[child], item) {
			break
		}
		h.put(i, h.items[child])
		i = child
	}
	if i == from {
		return false
	}
	h.put(i, item)
	return true
}

func (h *Heap[T]) put(i int, item T) {
	h.items[i] = item
	h.placed(item, i)
}
