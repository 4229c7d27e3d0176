package checkpoints

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
)

// Messages to the appender.
type (
	entriesAdded struct{} // to the signal log
	appendDue    struct{}
	appended     struct {
		n    int
		more bool
		err  error
	}
)

const (
	// appendAfter is how long new entries of the signal log wait for others, so that one append
	// takes many. It is no longer than checkEvery, the signer's pause.
	appendAfter = time.Second
	// appendEvery is the longest time between two appends, in case no event reports an entry.
	appendEvery = 30 * time.Second
	// retryEvery is the pause after a failure, stepTimeout the time limit of a step.
	retryEvery  = time.Second
	stepTimeout = 10 * time.Second
)

// appender is the actor that appends the leaves of a partition. At most one append is in
// progress.
type appender struct {
	o       *owned
	waiting *atomic.Bool // entries were added since the last append began; shared with the follower
	running bool
	again   bool // entries were added during an append
	soon    bool // an append is due within appendAfter
	failing bool // the last append failed and was logged
	timer   engine.Timer
}

// Receive implements engine.Actor.
func (a *appender) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started, appendDue:
		a.append(c)
	case entriesAdded:
		a.onAdded(c)
	case appended:
		a.onAppended(c, m)
	}
}

func (a *appender) onAdded(c engine.Context) {
	switch {
	case a.running:
		a.again = true
	case !a.soon && !a.failing:
		a.soon = true
		a.next(c, appendAfter)
	}
}

func (a *appender) next(c engine.Context, after time.Duration) {
	a.timer.Stop()
	a.timer = c.After(after, appendDue{})
}

func (a *appender) append(c engine.Context) {
	if a.running {
		return
	}
	a.running, a.again, a.soon = true, false, false
	a.waiting.Store(false)
	o := a.o
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		n, more, err := o.store.AppendLeaves(ctx, o.Partition, o.Epoch)
		return appended{n, more, err}
	})
}

func (a *appender) onAppended(c engine.Context, m appended) {
	a.running = false
	a.o.options.Metrics.appended(m.n)
	switch {
	case a.o.Refused(m.err):
	case m.err != nil:
		if !a.failing {
			a.failing = true
			a.o.log.Warn("leaves are not appended", "err", m.err)
		}
		a.next(c, retryEvery)
	case m.more:
		a.failing = false
		a.append(c)
	case a.again:
		a.failing, a.soon = false, true
		a.next(c, appendAfter)
	default:
		a.failing = false
		a.next(c, appendEvery)
	}
}
