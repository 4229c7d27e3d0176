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

// end discards the idle children and stops the others. last is the message to delay until they have ended.
func (s *childSet) end(last any) {
	left := map[*cell]struct{}{}
	for child := range s.alive {
		if !child.discard() {
			left[child] = struct{}{}
			child.postSystem(stop)
		}
	}
	s.alive, s.last = left, last
}

// ended returns the message of end once all children have ended, or nil.
func (s *childSet) ended() (last any) {
	if s == nil || len(s.alive) > 0 {
		return nil
	}
	return s.last
}
