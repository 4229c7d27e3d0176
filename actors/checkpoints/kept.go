package checkpoints

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Keeper keeps a checkpoint where a rollback of Redis does not reach it.
type Keeper interface {
	// Load returns the kept checkpoint; nil without one.
	Load() (*record.Signed, error)
	Save(c *record.Signed) error
}

// kept is the newest checkpoint of the record that a node has seen.
type kept struct {
	mu     sync.Mutex
	keeper Keeper // nil: it is forgotten at the end of the process
	newest *record.Signed
	loaded bool
}

// seen returns the newest checkpoint of a record with the given name; nil without one.
func (k *kept) seen(name string) (*verify.Checkpoint, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.loaded && k.keeper != nil {
		var err error
		if k.newest, err = k.keeper.Load(); err != nil {
			return nil, err
		}
	}
	k.loaded = true
	if k.newest == nil || k.newest.Origin != name {
		return nil, nil
	}
	return k.newest.Checkpoint, nil
}

// saw keeps a checkpoint, which the newest one has become.
func (k *kept) saw(c *record.Signed) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loaded = true
	if was := k.newest; was != nil && was.Origin == c.Origin && (was.Root == c.Root || c.At.Before(was.At)) {
		return nil
	}
	if k.keeper != nil {
		if err := k.keeper.Save(c); err != nil {
			return err
		}
	}
	k.newest = c
	return nil
}

// Watch keeps the newest checkpoint until ctx ends, on each node: whichever signs next knows it.
func (n *Node) Watch(ctx context.Context) error {
	t := time.NewTicker(n.options.Every)
	defer t.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		within, cancel := context.WithTimeout(ctx, stepTimeout)
		err := n.keepNewest(within)
		cancel()
		if err != nil && !failing && ctx.Err() == nil {
			n.options.Log.Warn("the newest checkpoint is not kept", "err", err)
		}
		failing = err != nil
	}
}

// keepNewest keeps the newest checkpoint if it follows the one that was seen before.
func (n *Node) keepNewest(ctx context.Context) error {
	c, err := n.store.Checkpoint(ctx)
	if signal.KindOf(err) == signal.KindNotFound {
		return nil
	}
	if err != nil || c.Origin != n.keys.Name() {
		return err
	}
	if err := n.extends(ctx, c.Checkpoint); err != nil {
		return err
	}
	return n.kept.saw(c)
}

// extends checks that a stored checkpoint, nil for none, follows the newest that this node has seen, or
// that an operator has accepted that it does not.
func (n *Node) extends(ctx context.Context, stored *verify.Checkpoint) error {
	seen, err := n.kept.seen(n.keys.Name())
	if err != nil || seen == nil || stored != nil && stored.Root == seen.Root {
		return err
	}
	back, err := n.store.Rollback(ctx)
	if err != nil || back != nil && back.Origin == seen.Origin && (seen.Root.Hash == back.Root || seen.At.Before(back.At)) {
		return err
	}
	if stored == nil || stored.Root.N < seen.Root.N {
		return fmt.Errorf("%w: checkpoint number %d of %s, which this node has seen, is lost", verify.ErrRewritten,
			seen.Root.N, seen.At.UTC().Format(time.RFC3339))
	}
	was := &verify.Checkpoint{Origin: seen.Origin, Root: seen.Root}
	is := &verify.Checkpoint{Origin: seen.Origin, Root: stored.Root}
	g, err := n.store.Growth(ctx, was, is)
	if err != nil {
		return err
	}
	return g.Consistent(was, is)
}
