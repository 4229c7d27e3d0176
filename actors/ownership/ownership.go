// Package ownership is the contract between the owner of a partition and its tenants, which
// work in the partition as long as this process owns it. Package partition starts tenants
// and passes events to them without importing them.
//
// What it promises to a tenant: its actors are children of the owner and end with it; the
// epoch does not change while they live; events come in the order of the log, each at least
// once. In return a tenant writes under the epoch and notifies the owner when one of its
// writes was refused.
package ownership

import (
	"context"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Tenant starts actors in owned partitions. All partitions of a process share one.
type Tenant interface {
	// Start starts the actors of a partition as children of its owner. c is the context of
	// the owner.
	Start(c engine.Context, o Owned) Follower
}

// Follower is the part of a tenant that works in one partition.
type Follower interface {
	// Follow receives events in the order of the log. It must not wait, nor change them.
	Follow(events []signal.Event)
}

// Recorder is a Follower whose work on an event must be stored before the event counts as
// handled.
type Recorder interface {
	Follower
	// Record does the work for consecutive events of the log. It may wait. After an error it
	// may be called again with the same events.
	Record(ctx context.Context, events []signal.Event) error
	// Stored returns the position up to which that work is stored, at most handled, the
	// position of the last event that was passed to Record.
	Stored(handled signal.Position) signal.Position
}

// Owned is a partition that this process owns. It does not change.
type Owned struct {
	Partition int
	Epoch     int64
	Owner     engine.Ref // the partition's actor
}

// Lost is a message to the owner under an epoch: it must give the partition up, because a write under
// that epoch was refused or because Redis has lost writes.
type Lost struct {
	Epoch int64
	Err   error
}

// GiveUp notifies the owner that it must give the partition up because of err.
func (o Owned) GiveUp(err error) { o.Owner.Tell(Lost{o.Epoch, err}) }

// Refused reports whether err is the refusal of a write because the epoch has ended. If so,
// it notifies the owner, which then stops all tenants of the partition.
func (o Owned) Refused(err error) bool {
	if signal.CodeOf(err) != signal.CodeNotOwner {
		return false
	}
	o.GiveUp(err)
	return true
}
