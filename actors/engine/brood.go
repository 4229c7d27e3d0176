package engine

// brood are the children of an actor with Supervision.Discard. The library does not
// know that they are its children, except that it notifies the actor of their failures
// and of their end: it would send each of them a message to stop, and wait for as many
// answers. All of it is touched by the parent's own goroutine only.
type brood struct {
	alive map[*cell]struct{}
	// last is the library's message that ends or restarts the parent. It is held back
	// until all children have ended; nil: there is none.
	last any
}

// endIncarnationWith ends the incarnation by the library's message m, of which the actor
// learns by last: at once, or when its brood has ended.
func (c *cell) endIncarnationWith(m, last any) {
	if c.brood == nil {
		c.lib.InvokeSystemMessage(m)
		return
	}
	c.endIncarnation(last)
	for child := range c.brood.alive {
		if child.discard() {
			delete(c.brood.alive, child)
		} else {
			child.PostSystemMessage(stop)
		}
	}
	c.brood.last = m
	c.afterBrood()
}

// afterBrood lets the library end the incarnation if nothing but the brood was waited
// for, and that has ended.
func (c *cell) afterBrood() {
	if b := c.brood; b != nil && b.last != nil && len(b.alive) == 0 {
		c.brood = nil
		c.lib.InvokeSystemMessage(b.last)
	}
}

// discard ends an actor that is idle and has no children, and reports whether it did. Its
// parent calls it.
func (c *cell) discard() bool {
	c.mu.Lock()
	if c.scheduled || c.closed || c.parent {
		c.mu.Unlock()
		return false
	}
	c.ending, c.stopping = true, true
	if c.cancel != nil {
		c.cancel()
	}
	c.actor, c.ctx, c.cancel = nil, nil, nil
	c.closeLocked()
	c.mu.Unlock()
	c.sys.timers.dropAll(c) // not with the lock held: the heap takes it, too
	if !c.sys.ending.Load() {
		c.sys.library.ProcessRegistry.Remove(c.lib.Self())
	}
	return true
}
