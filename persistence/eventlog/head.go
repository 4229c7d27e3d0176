package eventlog

import (
	"context"
	"log/slog"
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
	store     *Store
	partition int
	log       *slog.Logger
	follow    *following
	asked     *headQuestion // guarded by following.mu
	next      *headQuestion // guarded by following.mu
	asking    tasks.Group   // of at most one goroutine, which outlives the first caller
}

// headQuestion is asked once for all callers that share it.
type headQuestion struct {
	done chan struct{} // closed with the answer
	end  signal.Position
	err  error
}

// end returns the end of the log in Redis at some moment during the call: see Tail.Head.
func (h *headQuestions) end(ctx context.Context) (signal.Position, error) {
	h.follow.mu.Lock()
	if h.follow.withheld {
		defer h.follow.mu.Unlock()
		return h.follow.passed.Later(h.follow.confirmed.position()), nil
	}
	q := &headQuestion{done: make(chan struct{})}
	switch {
	case h.asked == nil:
		if !h.asking.Go(ctx, func(ctx context.Context) { h.ask(ctx, q) }) {
			h.follow.mu.Unlock()
			return signal.Position{}, signal.Stopping(tasks.ErrClosed)
		}
		h.asked = q
	case h.next == nil:
		h.next = q
	default:
		q = h.next
	}
	h.follow.mu.Unlock()
	select {
	case <-q.done:
		return q.end, q.err
	case <-ctx.Done():
		return signal.Position{}, redisclient.Unavailable(ctx.Err())
	}
}

// ask asks q, then the questions that have come meanwhile.
func (h *headQuestions) ask(ctx context.Context, q *headQuestion) {
	for q != nil {
		limited, cancel := context.WithTimeout(ctx, headTimeout)
		// Not before what the tail has passed: no caller waits for a log that Redis has lost.
		if !panics.Guard(h.log, panics.Log, func() {
			q.end, q.err = h.store.lastEventAfter(limited, h.partition, h.follow.position())
		}) {
			q.err = redisclient.Unavailable(panics.ErrPanicked)
		}
		cancel()
		h.follow.mu.Lock()
		answered := q
		q = h.next
		h.asked, h.next = q, nil
		h.follow.mu.Unlock()
		close(answered.done)
	}
}
