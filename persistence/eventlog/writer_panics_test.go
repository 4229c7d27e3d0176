package eventlog

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// panicking panics at the next command if next is set.
type panicking struct{ next atomic.Bool }

func (l *panicking) Allow() error {
	if l.next.Swap(false) {
		panic("at a batch")
	}
	return nil
}

func (*panicking) ReportResult(error) {}

func TestWriterContinuesAfterPanic(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, redistest.New(t), LogOptions{Writers: 1})
	faulty := &panicking{}
	b.store.RDB.(*redis.Client).Options().Limiter = faulty
	account := signal.NewAccountID()
	b.append(noted(account, "before"))
	faulty.next.Store(true)
	_, err := b.log.Append(t.Context(), noted(account, "x"))
	if !errors.Is(err, panics.ErrPanicked) || signal.KindOf(err) != signal.KindInternal {
		t.Errorf("the batch that panicked ends with %v", err)
	}
	b.append(noted(account, "after"))
	b.wantEvents(account, 2)
}

// TestFailedBatchFailsWaitingOperations: callers need not wait for their own deadlines.
func TestFailedBatchFailsWaitingOperations(t *testing.T) {
	t.Parallel()
	w := newWriter(&Store{Client: &redisclient.Client{Replicas: &redisclient.Replicas{}}},
		LogOptions{Queue: 10, Log: slog.New(slog.DiscardHandler)})
	w.adopt(redisclient.Keys{}, 0, "w")
	first, second := NewOperation(redisclient.Keys{}), NewOperation(redisclient.Keys{})
	if err := w.enqueue(0, first); err != nil {
		t.Fatal(err)
	}
	batches, _ := w.collect()
	if err := w.enqueue(0, second); err != nil {
		t.Fatal(err)
	}
	batches[0].err = errors.New("away")
	w.failed(batches[0])
	for _, o := range []*Operation{first, second} {
		select {
		case r := <-o.Done:
			if signal.KindOf(r.Err) != signal.KindUnavailable {
				t.Errorf("answered with %v", r.Err)
			}
		default:
			t.Error("an operation is not answered")
		}
	}
}

// TestWriterProbesAgainAfterPanic: otherwise every later operation would be refused.
func TestWriterProbesAgainAfterPanic(t *testing.T) {
	t.Parallel()
	w := newWriter(&Store{Client: &redisclient.Client{Replicas: &redisclient.Replicas{}}},
		LogOptions{Queue: 10, Log: slog.New(slog.DiscardHandler)})
	w.adopt(redisclient.Keys{}, 0, "w")
	w.down = errors.New("down")
	o := NewOperation(redisclient.Keys{})
	if err := w.enqueue(0, o); err != nil {
		t.Fatal(err)
	}
	if err := w.enqueue(0, NewOperation(redisclient.Keys{})); err == nil {
		t.Error("a second operation is accepted during a probe")
	}
	batches, _ := w.collect()
	w.abandon(batches)
	if r := <-o.Done; !errors.Is(r.Err, panics.ErrPanicked) {
		t.Errorf("the probe ends with %v", r.Err)
	}
	if err := w.enqueue(0, NewOperation(redisclient.Keys{})); err != nil {
		t.Errorf("the next one: %v", err)
	}
}
