// Package ownership is the contract between the owner of a partition and its tenants: what
// works in a partition as long as this process owns it. Package partition starts tenants
// and hands them events without importing them.
//
// What is promised to a tenant: its actors are children of the owner and end with it; the
// epoch does not change while they live; events come in the order of the log, each at least
// once. In return a tenant writes under the epoch and notifies the owner when a write of it
// was refused.
package ownership

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Tenant starts what works in a partition. Several partitions of a process may share one.
type Tenant interface {
	// Start starts the actors of a partition as children of its owner, whose context c is.
	Start(c engine.Context, o Owned) Follower
}

// Follower is the part of a tenant that works in one partition.
type Follower interface {
	// Follow hands over events in the order of the log. It must not wait, nor change them.
	Follow(events []signal.Event)
}

// Recorder is a Follower whose work on an event must be stored before the event counts as
// handled.
type Recorder interface {
	Follower
	// Record does the work for events, which follow each other in the log. It may wait.
	// After an error it may be called again with the same events.
	Record(ctx context.Context, events []signal.Event) error
	// Stored returns up to where that work is stored, at most handled, which is where the
	// last event lies that Record was given.
	Stored(handled signal.Position) signal.Position
}

// Owned is a partition that this process owns. It does not change.
type Owned struct {
	Partition int
	Epoch     int64
	Owner     engine.Ref // the partition's actor
}

// Lost is a message to the owner: it must give the partition up, because a write under its
// epoch was refused or because Redis has lost writes.
type Lost struct{ Err error }

// GiveUp notifies the owner that it must give the partition up because of err.
func (o Owned) GiveUp(err error) { o.Owner.Tell(Lost{err}) }

// Refused reports whether err is the refusal of a write because the epoch is over, and if
// so notifies the owner, which then ends all that works in the partition.
func (o Owned) Refused(err error) bool {
	if signal.CodeOf(err) != signal.CodeNotOwner {
		return false
	}
	o.GiveUp(err)
	return true
}
