package eventlog

import (
	"context"
	"errors"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/tasks"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// headTimeout bounds one question for a log's end.
const headTimeout = 2 * time.Second

// headQuestions are the questions for the end of one log: at most one is in flight, and all
// callers that come meanwhile share the next one.
type headQuestions struct {
	asked, next *headQuestion // guarded by tailPartition.mu
	asking      tasks.Group   // of at most one goroutine, which outlives the first caller
}

// headQuestion is asked once for all callers that share it.
type headQuestion struct {
	done chan struct{} // closed with the answer
	end  signal.Position
	err  error
}

// Head returns the end of a partition's event log in Redis at some moment during the call, or of
// what replicas have of it while they are missing.
// KindUnavailable: Redis does not answer, or ctx ended.
func (t *Tail) Head(ctx context.Context, partition int) (signal.Position, error) {
	part := &t.partitions[partition]
	part.mu.Lock()
	if part.withheld {
		defer part.mu.Unlock()
		return part.passed.Later(t.store.confirmed[partition].position()), nil
	}
	q := &headQuestion{done: make(chan struct{})}
	switch {
	case part.head.asked == nil:
		if !part.head.asking.Go(ctx, func(ctx context.Context) { t.ask(ctx, partition, q) }) {
			part.mu.Unlock()
			return signal.Position{}, signal.Stopping(tasks.ErrClosed)
		}
		part.head.asked = q
	case part.head.next == nil:
		part.head.next = q
	default:
		q = part.head.next
	}
	part.mu.Unlock()
	select {
	case <-q.done:
		return q.end, q.err
	case <-ctx.Done():
		return signal.Position{}, redisclient.Unavailable(ctx.Err())
	}
}

// ask asks q, then the questions that have come meanwhile.
func (t *Tail) ask(ctx context.Context, partition int, q *headQuestion) {
	part := &t.partitions[partition]
	for q != nil {
		limited, cancel := context.WithTimeout(ctx, headTimeout)
		// Not before what the tail has passed: no caller waits for a log that Redis has lost.
		if !panics.Guard(t.log, panics.Log, func() {
			q.end, q.err = t.store.lastEventAfter(limited, partition, t.passed(partition))
		}) {
			q.err = redisclient.Unavailable(panics.ErrPanicked)
		}
		cancel()
		part.mu.Lock()
		answered := q
		q = part.head.next
		part.head.asked, part.head.next = q, nil
		part.mu.Unlock()
		close(answered.done)
	}
}

// Close cancels the questions of Head that are in flight and waits for their end.
func (t *Tail) Close(ctx context.Context) error {
	var errs []error
	for i := range t.partitions {
		errs = append(errs, t.partitions[i].head.asking.Close(ctx))
	}
	return errors.Join(errs...)
}
