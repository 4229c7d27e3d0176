// Package heap keeps items by their order, so that the first one is known at once and any
// one can be moved or removed by its place. It is container/heap with types.
package heap

import (
	"iter"
	"slices"
)

// Heap is a binary heap. New makes one. It is not safe for concurrent use.
type Heap[T any] struct {
	items  []T
	before func(a, b T) bool
	placed func(item T, place int)
}

// New returns an empty heap, on top of which is the item that is before all others. placed
// is called with each item whose place changes, and with -1 for one that is removed.
func New[T any](before func(a, b T) bool, placed func(item T, place int)) Heap[T] {
	return Heap[T]{before: before, placed: placed}
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.items) }

// Top returns the first item, at place 0. The heap must not be empty.
func (h *Heap[T]) Top() T { return h.items[0] }

// All returns the items in the order of their places. The heap must not be changed meanwhile.
func (h *Heap[T]) All() iter.Seq[T] { return slices.Values(h.items) }

// Push adds an item.
func (h *Heap[T]) Push(item T) {
	h.items = append(h.items, item)
	h.up(len(h.items) - 1)
}

// Remove removes the item at a place.
func (h *Heap[T]) Remove(place int) {
	last := len(h.items) - 1
	removed, moved := h.items[place], h.items[last]
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	if place != last {
		h.items[place] = moved
		h.Fix(place)
	}
	h.placed(removed, -1)
}

// Fix restores the order after the item at a place has changed.
func (h *Heap[T]) Fix(place int) {
	if !h.down(place) {
		h.up(place)
	}
}

// up moves the item at i to where none above it is behind it.
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

// down moves the item at i to where none below it is before it, and reports whether it
// had to.
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
