// Package tasks joins goroutines that outlive the call that starts them, because several
// callers share their result. They end with their owner, which waits for them.
package tasks

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrClosed is the error of work that was not started because its Group was closed.
var ErrClosed = errors.New("the service ends")

// Group is the goroutines of one owner. The zero value is ready to use. All methods are
// safe for concurrent use.
type Group struct {
	mu      sync.Mutex
	closed  bool
	tasks   map[*task]struct{}
	running sync.WaitGroup // added to under mu while not closed
}

// task is one running call.
type task struct{ cancel context.CancelFunc }

// Go calls f in a goroutine, and reports whether it did: after Close it does not. The
// context of f has the values of ctx, but ends with the Group. f recovers from its own
// panics.
func (g *Group) Go(ctx context.Context, f func(ctx context.Context)) bool {
	t, ctx := g.begin(ctx)
	if t == nil {
		return false
	}
	go func() {
		defer g.end(t)
		f(ctx)
	}()
	return true
}

// Do is like Go, but calls f in the goroutine of the caller.
func (g *Group) Do(ctx context.Context, f func(ctx context.Context)) bool {
	t, ctx := g.begin(ctx)
	if t == nil {
		return false
	}
	defer g.end(t)
	f(ctx)
	return true
}

func (g *Group) begin(ctx context.Context) (*task, context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	t := &task{cancel}
	if g.tasks == nil {
		g.tasks = make(map[*task]struct{})
	}
	g.tasks[t] = struct{}{}
	g.running.Add(1)
	return t, ctx
}

func (g *Group) end(t *task) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.cancel()
	delete(g.tasks, t)
	g.running.Done()
}

// Cancel cancels the contexts of all running calls and refuses further ones.
func (g *Group) Cancel() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for t := range g.tasks {
		t.cancel()
	}
}

// Close is Cancel, and waits for the calls under way, at most until ctx ends. It may be
// called more than once.
func (g *Group) Close(ctx context.Context) error {
	g.Cancel()
	ended := make(chan struct{})
	go func() {
		g.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for goroutines: %w", ctx.Err())
	}
}
