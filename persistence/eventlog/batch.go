package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// The scripts that carry out a batch. appendScript does any: it may have steps about deliveries.
// plainScript does those whose operations are all plain.
var (
	appendScript = redisclient.Script(scripts, "once", "deliveries", "append")
	plainScript  = redisclient.Script(scripts, "once", "plain")
)

// loadScripts gives the scripts to a server.
func loadScripts(ctx context.Context, rdb redis.Scripter) error {
	return errors.Join(appendScript.Load(ctx, rdb).Err(), plainScript.Load(ctx, rdb).Err())
}

// Limits of a batch.
const (
	batchOperations = 512
	batchBytes      = 1 << 20
	batchKeys       = 1 << 14 // beside the fixed ones, so that two bytes name each
	batchDeliveries = 100     // take Redis a millisecond, by which events are delayed
)

// queue holds the operations of one partition.
type queue struct {
	partition int
	keys      [8]string
	confirm   string       // the key of the slot that is written for a WAIT
	waiting   []*Operation // guarded by writer.mu
	number    int64        // of the last batch; the writer's goroutine only
}

// next returns how many of the waiting operations go into the next batch.
func (q *queue) next() int {
	size, keys, deliveries := 0, 0, 0
	for n, o := range q.waiting {
		full := n == batchOperations || size >= batchBytes || keys+len(o.keys) > batchKeys ||
			o.Deliveries > 0 && deliveries+o.Deliveries > batchDeliveries
		if full && n > 0 {
			return n
		}
		size += o.bytes
		keys += len(o.keys)
		deliveries += o.Deliveries
	}
	return len(q.waiting)
}

// take removes the first n waiting operations and returns them.
func (q *queue) take(n int) []*Operation {
	taken := append([]*Operation(nil), q.waiting[:n]...)
	left := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[left:])
	q.waiting = q.waiting[:left]
	return taken
}

// batch is what one call of the script carries out.
type batch struct {
	queue      *queue
	operations []*Operation
	number     int64
	args       []any
	deadline   time.Time
	probe      bool
	err        error // of the last attempt
	refused    error // of the last attempt that Redis refused
	reply      string
	confirmed  bool // replicas have it
}

// encode makes the arguments of the script.
func (b *batch) encode() {
	if !b.encodePlain() {
		b.encodeAny()
	}
}

// plainKeys is how many of the fixed keys plainScript takes.
const plainKeys = int(refOpen)

// plainGuard is the code of a guard in the program of plainScript. The others are those of their commands.
const plainGuard = 4

// encodePlain makes the arguments of plainScript, unless it cannot carry out the batch.
func (b *batch) encodePlain() bool {
	values, keys := 0, plainKeys
	for _, o := range b.operations {
		if !o.plain() {
			return false
		}
		values += len(o.values) + len(o.args)
		keys += len(o.keys)
	}
	b.args = make([]any, 0, 5+keys+values)
	b.args = append(b.args, "EVALSHA", plainScript.Hash(), keys)
	for i := range plainKeys {
		b.args = append(b.args, &b.queue.keys[i])
	}
	program := make([]byte, 0, 2*values)
	for n, o := range b.operations {
		if len(o.keys) > 0 {
			b.args = append(b.args, &o.keys[0])
			program = append(program, plainGuard, byte(n>>8), byte(n), byte(len(o.steps)/stepBytes))
		}
		for i := 0; i < len(o.steps); i += stepBytes {
			program = append(program, o.steps[i])
		}
	}
	b.args = append(b.args, b.number, program)
	b.appendArgs()
	return true
}

// appendArgs adds the values of all operations.
func (b *batch) appendArgs() {
	for _, o := range b.operations {
		// Pointers, since a string in an interface costs an allocation.
		for i := range o.values {
			b.args = append(b.args, &o.values[i])
		}
		for i := range o.args {
			b.args = append(b.args, &o.args[i])
		}
	}
}

// encodeAny makes the arguments of appendScript.
func (b *batch) encodeAny() {
	size, values, keys := 0, 0, 0
	for _, o := range b.operations {
		size += 9 + len(o.guards) + len(o.steps)
		values += len(o.values) + len(o.args)
		keys += len(o.keys)
	}
	fixed := &b.queue.keys
	b.args = make([]any, 0, 5+len(fixed)+keys+values)
	b.args = append(b.args, "EVALSHA", appendScript.Hash(), len(fixed)+keys)
	for i := range fixed {
		b.args = append(b.args, &fixed[i])
	}
	program := make([]byte, 0, size)
	base := len(fixed) + 1
	for _, o := range b.operations {
		program = o.appendProgram(program, base)
		base += len(o.keys)
		for i := range o.keys {
			b.args = append(b.args, &o.keys[i])
		}
	}
	b.args = append(b.args, b.number, program)
	b.appendArgs()
}

// succeed answers the operations by the script's reply.
func (b *batch) succeed(s *Store) {
	r, err := parseBatchReply(b.reply)
	if err != nil {
		b.fail(b.failure(err))
		return
	}
	events := 0
	for i, o := range b.operations {
		if _, refused := r.refused[i]; !refused {
			events += o.events
		}
	}
	if events > 0 { // before the callers know
		last := r.first.Plus(events - 1)
		s.appended[b.queue.partition].note(last)
		if b.confirmed {
			s.confirmed[b.queue.partition].raise(last)
		}
	}
	at, next := r.stamp, r.first
	for i, o := range b.operations {
		if refused, ok := r.refused[i]; ok {
			o.Done <- outcome{Err: refused.of(o, b.queue.partition)}
			continue
		}
		end := outcome{position: at, Left: r.left[i]}
		if o.events > 0 {
			end.position, at, next = next, next.Plus(o.events-1), next.Plus(o.events)
		}
		o.Done <- end
	}
}

func (b *batch) fail(err error) {
	for _, o := range b.operations {
		o.Done <- outcome{Err: err}
	}
}

// failure returns err as the operations of b are answered with it.
func (b *batch) failure(err error) error {
	return fmt.Errorf("append to partition %d: %w", b.queue.partition, err)
}

// batchReply is what scripts/append.lua returns. The maps are by operation.
type batchReply struct {
	first   signal.Position // of the events; zero without one
	stamp   signal.Position // of operations before the first event; zero if none needed it
	refused map[int]refusal
	left    map[int][]int // numbers of the deliveries that the operation has left out
}

// parseBatchReply reads the reply of the script.
func parseBatchReply(reply string) (r batchReply, err error) {
	words := strings.Split(reply, " ")
	ok := len(words) > 1 && parseID(words[0], &r.first) && parseID(words[1], &r.stamp)
	for i := 2; ok && i < len(words); i++ {
		ok = r.addRefusal(words[i]) || r.addLeft(words[i])
	}
	if !ok {
		return batchReply{}, fmt.Errorf("reply %q of the script is not valid", reply)
	}
	return r, nil
}

// parseID reads an id, or "-", which leaves p as it is.
func parseID(word string, p *signal.Position) (ok bool) {
	if word == "-" {
		return true
	}
	*p, ok = signal.ParsePosition(word)
	return ok
}

// addRefusal reads "OPERATION:GUARD", which "=SEQUENCE" may follow.
func (r *batchReply) addRefusal(word string) bool {
	operation, guard, _ := strings.Cut(word, ":")
	guard, stored, found := strings.Cut(guard, "=")
	o, err := strconv.Atoi(operation)
	g, err2 := strconv.Atoi(guard)
	sequence, ok := codec.ParseDigits([]byte(stored))
	if err != nil || err2 != nil || found && !ok {
		return false
	}
	if r.refused == nil {
		r.refused = map[int]refusal{}
	}
	r.refused[o] = refusal{g, sequence}
	return true
}

// addLeft reads "OPERATION.DELIVERY".
func (r *batchReply) addLeft(word string) bool {
	operation, item, _ := strings.Cut(word, ".")
	o, err := strconv.Atoi(operation)
	i, err2 := strconv.Atoi(item)
	if err != nil || err2 != nil {
		return false
	}
	if r.left == nil {
		r.left = map[int][]int{}
	}
	r.left[o] = append(r.left[o], i)
	return true
}

// refusal is the guard that has refused an operation.
type refusal struct {
	guard    int
	sequence int64 // that is stored; of guardSequence only
}

// of returns the error for the caller of o.
func (r refusal) of(o *Operation, partition int) error {
	if r.guard >= len(o.refusals) {
		return fmt.Errorf("append to partition %d: guard %d is not known", partition, r.guard)
	}
	err := o.refusals[r.guard]
	if errors.Is(err, errChanged) {
		return signal.Changed(r.sequence)
	}
	return err
}

// Together carries out operations of partition p as one batch, as a writer would: for
// tests of the steps that records need.
func Together(
	ctx context.Context, rdb redis.UniversalClient, k redisclient.Keys, p int, operations ...*Operation,
) error {
	b := &batch{queue: &queue{partition: p, keys: fixedKeys(k, p, "test")}, number: 1, operations: operations}
	b.encode()
	if err := loadScripts(ctx, rdb); err != nil {
		return err
	}
	var err error
	if b.reply, err = rdb.Do(ctx, b.args...).Text(); err != nil {
		return err
	}
	b.succeed(&Store{appended: make([]newest, p+1), confirmed: make([]newest, p+1)})
	return nil
}
