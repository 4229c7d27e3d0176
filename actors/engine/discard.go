package engine

// childSet holds the children of an actor with Supervision.Discard. The library notifies
// the actor of their failures and of their end, but does not list them as its children:
// it would send a message to each of them to stop it, and wait for the answers. Only the
// parent's own goroutine uses it.
type childSet struct {
	alive map[*cell]struct{}
	// last is the library's message that ends or restarts the parent, delayed until all
	// children have ended, or nil.
	last any
}

// endIncarnationWith ends the incarnation for the library's message m, after which the
// actor receives last. It passes m to the library at once, or when the children have
// ended.
func (c *cell) endIncarnationWith(m, last any) {
	if c.children == nil {
		c.lib.InvokeSystemMessage(m)
		return
	}
	c.endIncarnation(last)
	left := map[*cell]struct{}{}
	for child := range c.children.alive {
		if !child.discard() {
			left[child] = struct{}{}
			child.PostSystemMessage(stop)
		}
	}
	c.children.alive, c.children.last = left, m
	c.afterChildren()
}

// afterChildren passes the delayed message to the library once all children have ended.
func (c *cell) afterChildren() {
	if b := c.children; b != nil && b.last != nil && len(b.alive) == 0 {
		c.children = nil
		c.lib.InvokeSystemMessage(b.last)
	}
}

// discard ends an actor that is idle and has no children, and reports whether it did.
// The parent calls it.
func (c *cell) discard() bool {
	c.mu.Lock()
	if c.scheduled || c.closed || c.parent {
		c.mu.Unlock()
		return false
	}
	c.ending, c.stopping = true, true
	if c.scope != nil {
		c.scope.cancel()
	}
	c.actor, c.scope = nil, nil
	c.closeLocked()
	c.mu.Unlock()
	c.sys.timers.dropAll(c) // without the lock, which the heap takes, too
	if !c.sys.ending.Load() {
		c.sys.library.ProcessRegistry.Remove(c.lib.Self())
	}
	return true
}
