package lifecycle

import (
	"context"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Messages to the parent.
type (
	// write asks for a change to be appended; ref gets the result as appended.
	write struct {
		ref    engine.Ref
		change signal.Change
	}
	// written reports that a write of a queue has ended.
	written struct{ queue *writeQueue }
)

const (
	// maxClosings is the number of closings that are appended at once for a partition: enough to fill
	// the log's batches.
	maxClosings = 256
	// maxUpdates is the same for updates. It is small, because most signals of a timeframe are updated
	// when a bar closes, which would delay runs and closings (deploy/decisions/0096-updates-give-way.md).
	maxUpdates = 16
	// appendTimeout bounds one write.
	appendTimeout = 10 * time.Second
)

// writeQueue holds changes of a partition until they are appended, up to max at once.
type writeQueue struct {
	waiting  []write
	max      int
	inFlight int
}

// add appends a change, as soon as fewer than max are in flight.
func (q *writeQueue) add(c engine.Context, o *owned, w write) {
	q.waiting = append(q.waiting, w)
	q.appendNext(c, o)
}

func (q *writeQueue) onWritten(c engine.Context, o *owned) {
	q.inFlight--
	q.appendNext(c, o)
}

func (q *writeQueue) appendNext(c engine.Context, o *owned) {
	for q.inFlight < q.max && len(q.waiting) > 0 {
		w := q.waiting[0]
		if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
			q.waiting = nil
		}
		q.inFlight++
		c.Go(func(ctx context.Context) any {
			ctx, cancel := context.WithTimeout(ctx, appendTimeout)
			defer cancel()
			_, err := o.events.Append(ctx, w.change)
			w.ref.Tell(appended{w.change.Signal, err})
			return written{q}
		})
	}
}
