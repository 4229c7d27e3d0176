package eventlog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Events wait for deliveries no longer than for so many, however many there are.
func TestABatchHasFewDeliveries(t *testing.T) {
	t.Parallel()
	w := newWriter(nil, LogOptions{Queue: 100})
	w.adopt(0, "w")
	outcomes := func(n int) *Operation {
		o := NewOperation()
		o.Deliveries = n
		return o
	}
	for _, n := range []int{1, batchDeliveries - 1, 1, 0, 0, batchDeliveries + 1, 0, 60, 0, 60} {
		if err := w.enqueue(0, outcomes(n)); err != nil {
			t.Fatal(err)
		}
	}
	var got []int
	for {
		batches, _ := w.collect()
		if len(batches) == 0 {
			break
		}
		got = append(got, len(batches[0].operations))
	}
	if d := cmp.Diff([]int{2, 3, 2, 2, 1}, got); d != "" {
		t.Errorf("operations in batches (-want +got):\n%s", d)
	}
}

// TestABatchHasFewOperations: Redis does nothing else meanwhile. Its deadline is that of the
// operation that has waited longest.
func TestABatchHasFewOperations(t *testing.T) {
	t.Parallel()
	w := newWriter(nil, LogOptions{Queue: 1000, AppendTimeout: time.Minute})
	w.adopt(0, "w")
	collect := func(want int) {
		t.Helper()
		batches, _ := w.collect()
		if len(batches) != 1 || len(batches[0].operations) != want {
			t.Fatalf("collected %+v, want one batch of %d", batches, want)
		}
		b := batches[0]
		if until := b.operations[0].enqueued.Add(time.Minute); !b.deadline.Equal(until) {
			t.Errorf("the deadline is %s, want %s", b.deadline, until)
		}
	}
	enqueue := func(bytes int) {
		o := NewOperation()
		o.bytes = bytes
		if err := w.enqueue(0, o); err != nil {
			t.Fatal(err)
		}
	}
	for range BatchOperations + 5 {
		enqueue(0)
	}
	collect(BatchOperations)
	collect(5)
	for _, bytes := range []int{batchBytes / 2, batchBytes / 2, batchBytes, 1} {
		enqueue(bytes)
	}
	for _, want := range []int{2, 1, 1} {
		collect(want)
	}
	if batches, _ := w.collect(); len(batches) > 0 {
		t.Errorf("%d batches are left", len(batches))
	}
}
