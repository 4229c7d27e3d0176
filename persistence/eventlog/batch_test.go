package eventlog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Events wait for a limited number of deliveries, however many there are.
func TestBatchLimitsDeliveries(t *testing.T) {
	t.Parallel()
	w := newWriter(nil, LogOptions{Queue: 100})
	w.adopt(redisclient.Keys{}, 0, "w")
	outcomes := func(n int) *Operation {
		o := NewOperation(redisclient.Keys{})
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

// TestBatchLimitsOperations: Redis does nothing else meanwhile. The deadline of a batch is that of
// the operation that has waited longest.
func TestBatchLimitsOperations(t *testing.T) {
	t.Parallel()
	w := newWriter(nil, LogOptions{Queue: 1000, AppendTimeout: time.Minute})
	w.adopt(redisclient.Keys{}, 0, "w")
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
		o := NewOperation(redisclient.Keys{})
		o.bytes = bytes
		if err := w.enqueue(0, o); err != nil {
			t.Fatal(err)
		}
	}
	for range batchOperations + 5 {
		enqueue(0)
	}
	collect(batchOperations)
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

// FuzzLogReply: reading the replies about logs never panics.
func FuzzLogReply(f *testing.F) {
	for _, reply := range []string{
		"*1\r\n*2\r\n$3\r\n1-1\r\n*4\r\n$1\r\nh\r\n$1\r\nx\r\n$1\r\nd\r\n$2\r\n{}\r\n",
		"%1\r\n$12\r\n{p00}:events\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*0\r\n",
		"*-1\r\n", "_\r\n", "-ERR x\r\n", "*2000000000\r\n",
	} {
		f.Add([]byte(reply))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		reader := &tailReader{byKey: map[string]int{"{p00}:events": 0}}
		reader.parse(b)
		parseBatchReply(string(b))
	})
}

func TestParseBatchReply(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]batchReply{
		"12-3 11-0 0:1 17:0=300": {first: signal.Position{MS: 12, Seq: 3}, stamp: signal.Position{MS: 11},
			refused: map[int]refusal{0: {guard: 1}, 17: {sequence: 300}}},
		"1-2 - 3.0 3.7 5:2": {first: signal.Position{MS: 1, Seq: 2}, refused: map[int]refusal{5: {guard: 2}},
			left: map[int][]int{3: {0, 7}}},
		"- -": {},
	} {
		got, err := parseBatchReply(reply)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(batchReply{}, refusal{})); err != nil || diff != "" {
			t.Errorf("parseBatchReply(%q): %v (-want +got):\n%s", reply, err, diff)
		}
	}
	for _, reply := range []string{"", "1-1", "x -", "- - 1", "- - a:b", "- - 1:1=", "- - 1:1=x", "- - 1.", "- - x.1"} {
		if _, err := parseBatchReply(reply); err == nil {
			t.Errorf("parseBatchReply(%q) has no error", reply)
		}
	}
}
