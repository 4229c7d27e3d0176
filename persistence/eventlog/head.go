package eventlog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/tasks"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// headTimeout bounds one question for a log's end.
const headTimeout = 2 * time.Second

// headQuestions are the questions for the ends of a reader's logs: at most one is in flight, and all callers that come
// meanwhile share the next one, which is about all of their logs.
type headQuestions struct {
	store      *Store
	log        *slog.Logger
	partitions []*tailPartition // all, by number
	asking     tasks.Group      // of at most one goroutine, which outlives the first caller

	mu    sync.Mutex // guards the rest; after following.mu
	asked *headQuestion
	next  *headQuestion
}

// headQuestion is asked once for all callers that share it.
type headQuestion struct {
	ends map[int]signal.Position // by partition: those that are asked for, and their answers
	done chan struct{}           // closed with the answers
	err  error
}

// end returns the end of a log in Redis at some moment during the call: see Tail.Head.
func (h *headQuestions) end(ctx context.Context, partition int) (signal.Position, error) {
	if end, known := h.partitions[partition].follow.end(); known {
		return end, nil
	}
	q, err := h.join(ctx, partition)
	if err != nil {
		return signal.Position{}, err
	}
	select {
	case <-q.done:
		return q.ends[partition], q.err
	case <-ctx.Done():
		return signal.Position{}, redisclient.Unavailable(ctx.Err())
	}
}

// join returns a question about a partition that is asked from now on.
func (h *headQuestions) join(ctx context.Context, partition int) (*headQuestion, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.next
	if q == nil {
		q = &headQuestion{ends: map[int]signal.Position{}, done: make(chan struct{})}
	}
	q.ends[partition] = signal.Position{}
	if h.asked != nil {
		h.next = q
		return q, nil
	}
	if !h.asking.Go(ctx, func(ctx context.Context) { h.ask(ctx, q) }) {
		return nil, signal.Stopping(tasks.ErrClosed)
	}
	h.asked = q
	return q, nil
}

// ask asks q, then the questions that have come meanwhile.
func (h *headQuestions) ask(ctx context.Context, q *headQuestion) {
	for q != nil {
		limited, cancel := context.WithTimeout(ctx, headTimeout)
		if !panics.Guard(h.log, panics.Log, func() {
			for p := range q.ends {
				// Not before what the tail has passed: no caller waits for a log that Redis has lost.
				q.ends[p] = h.partitions[p].follow.position()
			}
			q.err = h.store.lastEventsAfter(limited, q.ends)
		}) {
			q.err = redisclient.Unavailable(panics.ErrPanicked)
		}
		cancel()
		h.mu.Lock()
		answered := q
		q = h.next
		h.asked, h.next = q, nil
		h.mu.Unlock()
		close(answered.done)
	}
}
