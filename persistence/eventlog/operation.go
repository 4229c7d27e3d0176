package eventlog

import (
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// command is what a step of an operation does. The numbers are those of
// scripts/append.lua.
type command byte

const (
	cmdEvent  command = 1  // appends to the event log: header, payload
	cmdRecord command = 2  // appends to the signal log under the id of the last event: header, metadata
	cmdExit   command = 17 // gives an open signal, by its field, the time of the last event as its exit, if it has none

	// The commands of Redis with these names.

	CmdHSet      command = 3  // HSET
	CmdHDel      command = 4  // HDEL
	CmdSet       command = 5  // SET
	CmdZAdd      command = 7  // ZADD
	CmdZRem      command = 8  // ZREM
	cmdXAck      command = 10 // XACK
	cmdXDel      command = 11 // XDEL
	CmdExpire    command = 12 // EXPIRE
	CmdSAdd      command = 13 // SADD
	CmdHIncrBy   command = 15 // HINCRBY
	cmdPExpireAt command = 16 // PEXPIREAT
	cmdXAdd      command = 18 // XADD

	// Steps of scripts/deliveries.lua, which has their arguments.

	CmdDue       command = 20 // a webhook is due with its first pending delivery
	CmdDeliver   command = 21 // new deliveries, unless their webhook was removed
	CmdBody      command = 22 // the payload of deliveries of this operation
	CmdOutcome   command = 23 // states after attempts
	CmdShift     command = 24 // manual changes from one set to another
	CmdUndue     command = 25 // a removed webhook: none of its deliveries is due
	CmdSucceeded command = 26 // deliveries that succeeded at the first attempt
)

// KeyRef names a key of an operation. Below ownKeys it is one of those that every batch
// carries, in the order of fixedKeys; Operation.Key makes the others.
type KeyRef int

const (
	refEvents       KeyRef = 2
	refSignals      KeyRef = 3
	refOpen         KeyRef = 4
	refDue          KeyRef = 5
	refEpoch        KeyRef = 6
	RefWebhooksDue  KeyRef = 7
	RefWebhookStats KeyRef = 8

	ownKeys KeyRef = 16
)

// fixedKeys returns the keys that every batch of writer in partition p carries.
func fixedKeys(k redisclient.Keys, p int, writer string) [8]string {
	return [8]string{k.BatchKey(p, writer), k.EventsKey(p), k.SignalsKey(p),
		k.OpenKey(p), k.RunsDueKey(p), k.EpochKey(p), k.WebhooksDueKey(p),
		k.WebhookStatsKey(p)}
}

// stampMode is what the script puts in front of a value. Only Redis knows the time of a
// change, so a record that needs it is stored as "ID VALUE".
type stampMode byte

const (
	// StampID is the id of the last event before the step; in an operation without
	// an event, the time.
	StampID stampMode = 1
	// stampKept is two ids: the first word of the value that the operation's first
	// GuardFieldExists found, then that of StampID.
	stampKept stampMode = 2
	// stampTwice is the id of StampID twice, for values that stampKept changes later.
	stampTwice stampMode = 3
	// stampUpdate is stampKept for an open signal with one more update: the updates that it
	// had are inserted before this one.
	stampUpdate stampMode = 4
	// stampClose is stampKept for a closing: the updates of the open signal are appended.
	stampClose stampMode = 5
)

// guardKind is a condition. The numbers are those of scripts/append.lua.
type guardKind byte

const (
	GuardFieldExists guardKind = 1
	GuardFieldIs     guardKind = 2
	guardKeyIs       guardKind = 3
	GuardMember      guardKind = 7 // of a sorted set
	GuardLengthBelow guardKind = 8 // of a hash
	guardSequence    guardKind = 9 // of the open signal that an earlier GuardFieldExists has found
	guardKeyFree     guardKind = 10
	guardExit        guardKind = 11 // of the open signal that an earlier GuardFieldExists has found
)

// Limits of an operation, by the width of the program's numbers and by how many values
// Lua can unpack.
const (
	maxStepArgs      = 4000
	maxProgramBytes  = 1<<24 - 1
	maxOperationKeys = 1<<15 - 1
	maxOperationArgs = 1<<20 - 1
)

// Operation is what one caller asks of the append script: guards, and steps that are all
// carried out unless a guard refuses. One goroutine builds it; from then on it belongs to
// the log.
type Operation struct {
	redisclient.Keys // makes the names that Key takes

	guards     []byte
	steps      []byte
	keys       []string // beside the fixed ones
	values     []string // of the guards
	args       []string // of the steps
	refusals   []error  // the caller's error if guard i refuses
	events     int      // steps that append to the event log
	Deliveries int      // that steps make or change
	bytes      int      // of all values and args
	Invalid    error    // a limit was exceeded

	// The log's own.
	enqueued time.Time
	Done     chan outcome // holds one

	room struct {
		steps [6 * stepBytes]byte
		args  [12]string
	}
}

// stepBytes is the length of a step in the program.
const stepBytes = 7

// The steps of plain operations, whose commands scripts/plain.lua has as well.
var (
	stepEvent  = [stepBytes]byte{byte(cmdEvent), 0, byte(refEvents), 0, 0, 0, 2}
	stepRecord = [stepBytes]byte{byte(cmdRecord), 0, byte(refSignals), 0, 0, 0, 2}
	stepOpen   = [stepBytes]byte{byte(CmdHSet), 0, byte(refOpen), byte(stampTwice), 1, 0, 2}
)

// plain reports whether scripts/plain.lua can carry out the operation: its only guard is that a field of a key of its own
// has a value, it begins with an event, and otherwise appends events and new signals.
func (o *Operation) plain() bool {
	if len(o.steps) == 0 || len(o.steps) > 255*stepBytes || command(o.steps[0]) != cmdEvent {
		return false
	}
	if n := len(o.refusals); n > 1 || n != len(o.keys) || n == 1 && guardKind(o.guards[0]) != GuardFieldIs {
		return false
	}
	for i := 0; i < len(o.steps); i += stepBytes {
		switch [stepBytes]byte(o.steps[i:]) {
		case stepEvent, stepRecord, stepOpen:
		default:
			return false
		}
	}
	return true
}

// outcome is how an operation ended.
type outcome struct {
	position signal.Position
	Left     []int // the deliveries of the operation that were left out, from 0
	Err      error
}

// NewOperation returns an operation without steps, on keys of the installation with names by k.
func NewOperation(k redisclient.Keys) *Operation {
	o := &Operation{Keys: k, Done: make(chan outcome, 1)}
	// Room for most changes, in the same allocation.
	o.steps, o.args = o.room.steps[:0], o.room.args[:0]
	return o
}

// Key returns a reference to a key of the operation's own. It must lie in the slot
// of the partition.
func (o *Operation) Key(name string) KeyRef {
	if len(o.keys) == maxOperationKeys {
		o.Invalid = fmt.Errorf("operation has more than %d keys", maxOperationKeys)
		return ownKeys
	}
	o.keys = append(o.keys, name)
	return ownKeys + KeyRef(len(o.keys)-1)
}

// Guard refuses the operation with the error refusal unless the condition holds. The values
// are the field for GuardFieldExists, field and value for GuardFieldIs, the value for
// guardKeyIs, the value that a key may have for guardKeyFree, the member for GuardMember, the first length that is refused for
// GuardLengthBelow, the sequence as a uvarint for guardSequence, and codec.ExitBytes for guardExit.
func (o *Operation) Guard(kind guardKind, k KeyRef, refusal error, values ...string) {
	o.guards = append(o.guards, byte(kind), byte(k>>8), byte(k))
	o.values = append(o.values, values...)
	o.count(values)
	o.refusals = append(o.refusals, refusal)
}

// Step adds a command on key k with the arguments that follow the key.
func (o *Operation) Step(c command, k KeyRef, args ...string) { o.add(c, k, 0, 0, args) }

// Stamped is Step with a stamp and a space in front of the argument at.
func (o *Operation) Stamped(mode stampMode, at int, c command, k KeyRef, args ...string) {
	o.add(c, k, mode, at, args)
}

func (o *Operation) add(c command, k KeyRef, mode stampMode, at int, args []string) {
	if len(args) > maxStepArgs || at > 255 {
		o.Invalid = fmt.Errorf("step of operation has %d arguments", len(args))
		return
	}
	o.steps = append(o.steps, byte(c), byte(k>>8), byte(k), byte(mode), byte(at), byte(len(args)>>8), byte(len(args)))
	o.args = append(o.args, args...)
	o.count(args)
	if c == cmdEvent {
		o.events++
	}
}

func (o *Operation) count(values []string) {
	for _, v := range values {
		o.bytes += len(v)
	}
}

// check returns why the operation cannot be encoded, or nil.
func (o *Operation) check() error {
	switch {
	case o.Invalid != nil:
		return o.Invalid
	case len(o.guards)+len(o.steps) > maxProgramBytes:
		return fmt.Errorf("operation has %d bytes of program", len(o.guards)+len(o.steps))
	case len(o.values)+len(o.args) > maxOperationArgs:
		return fmt.Errorf("operation has %d values", len(o.values)+len(o.args))
	case len(o.refusals) > 255:
		return fmt.Errorf("operation has %d guards", len(o.refusals))
	}
	return nil
}

// appendProgram appends the operation as the script reads it. base is the index of its first
// key in the batch's KEYS.
func (o *Operation) appendProgram(b []byte, base int) []byte {
	size, values := len(o.guards)+len(o.steps), len(o.values)+len(o.args)
	b = append(b, byte(len(o.refusals)), byte(size>>16), byte(size>>8), byte(size),
		byte(values>>16), byte(values>>8), byte(values), byte(base>>8), byte(base))
	b = append(b, o.guards...)
	return append(b, o.steps...)
}
