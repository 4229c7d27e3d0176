package eventlog

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// tailReader reads some partitions, by one read at a time. While it waits for events, a second
// goroutine reads the partitions that were attached since: see join.
type tailReader struct {
	store    *Store
	log      *slog.Logger
	count    int // TailOptions.Count
	all      []*tailPartition
	byKey    map[string]int // numbers of partitions by the keys of their logs
	withheld *atomic.Int64  // partitions of which events are withheld

	partitions []int // of this reader
	heads      *headQuestions
	connected  atomic.Bool
	pacing     pacing
	idle       chan struct{} // holds a value when a partition was added, for a reader without any
	added      chan struct{} // the same for join
	shown      atomic.Int64  // since the last read: see Follower.Shown

	mu      sync.Mutex
	covered map[int]bool // partitions of the present or the last read
}

// cover records the partitions of the next read.
func (r *tailReader) cover(partitions []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.covered)
	for _, p := range partitions {
		r.covered[p] = true
	}
}

func (r *tailReader) covers(p int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.covered[p]
}

// request notifies the reader that there is a reason to follow one of its partitions.
func (r *tailReader) request() {
	for _, c := range []chan struct{}{r.idle, r.added} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// update attaches the partitions for which there is a reason, detaches the others, and
// returns those that are followed. They are then covered by the reader's next read.
func (r *tailReader) update(ctx context.Context) ([]int, error) {
	var followed []int
	for _, p := range r.partitions {
		if !r.all[p].follow.isNeeded() {
			r.all[p].detach()
			continue
		}
		if err := r.all[p].attach(ctx); err != nil {
			return nil, err
		}
		followed = append(followed, p)
	}
	r.cover(followed)
	return followed, nil
}

// run reads the partitions until ctx ends.
func (r *tailReader) run(ctx context.Context) {
	begun, failure, retries := false, "", backoff.Backoff{Min: minBackoff, Max: maxBackoff}
	var buffer redisclient.Buffer
	for ctx.Err() == nil {
		start, events := time.Now(), 0
		var followed []int
		err := panics.Catch(r.log, panics.Tail, func() (err error) {
			// The first round only attaches, so that the tail is attached before an event comes.
			if followed, err = r.update(ctx); err == nil && len(followed) > 0 && begun {
				events, err = r.read(ctx, followed, redisclient.BlockTimeout, &buffer)
			}
			return err
		})
		if err == nil {
			if !r.connected.Swap(true) {
				r.log.Info("event logs are followed", "component", "tail")
			}
			failure = ""
			retries.Reset()
			if !begun {
				begun = true
				continue
			}
			if len(followed) == 0 {
				select {
				case <-r.idle:
				case <-ctx.Done():
				}
				continue
			}
			r.pacing.adapt(events, int(r.shown.Swap(0)), time.Since(start))
			r.pacing.wait(ctx, start)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		r.connected.Store(false)
		if text := err.Error(); text != failure {
			failure = text
			r.log.Warn("event logs cannot be read", "component", "tail", "err", err)
		}
		r.doubt(r.partitions)
		if c, ok := r.store.Blocking.(*redis.ClusterClient); ok {
			c.ReloadState(ctx)
		}
		retries.Wait(ctx)
	}
}

// newcomers returns the partitions that are to be followed, but not covered by the read that
// may be waiting for events.
func (r *tailReader) newcomers() []int {
	var list []int
	for _, p := range r.partitions {
		if !r.covers(p) && r.all[p].follow.isNeeded() {
			list = append(list, p)
		}
	}
	return list
}

// newcomerBlock is how long one read of newcomers waits for events: so long may a further
// newcomer have to wait.
const newcomerBlock = 10 * time.Millisecond

// join attaches partitions while a read of others waits for events, and reads them until that
// read has ended. A partition that both have read is handed on by one of them.
func (r *tailReader) join(ctx context.Context) {
	var buffer redisclient.Buffer
	for {
		select {
		case <-r.added:
		case <-ctx.Done():
			return
		}
		for ctx.Err() == nil {
			list := r.newcomers()
			if len(list) == 0 {
				break
			}
			if err := panics.Catch(r.log, panics.Tail, func() error {
				for _, p := range list {
					if err := r.all[p].attach(ctx); err != nil {
						return err
					}
				}
				_, err := r.read(ctx, list, newcomerBlock, &buffer)
				return err
			}); err != nil { // run reports it
				r.doubt(list)
				sleep(ctx, minBackoff, nil)
			}
		}
	}
}

// maxKeptReply is the size of a reply, in bytes, whose memory is used for the next one.
const maxKeptReply = 1 << 20

// read waits for events of attached partitions, for at most block, and hands them on. It returns
// how many came. The buffer takes the reply: events are decoded from it into memory of their own.
func (r *tailReader) read(ctx context.Context, partitions []int, block time.Duration, buffer *redisclient.Buffer) (
	events int, err error) {
	n := len(partitions)
	after := make([]signal.Position, n)
	args := make([]any, 6+2*n)
	copy(args, []any{"XREAD", "COUNT", r.count, "BLOCK", block.Milliseconds(), "STREAMS"})
	for i, p := range partitions {
		after[i] = r.all[p].at()
		args[6+i] = r.store.EventsKey(p)
		args[6+n+i] = after[i].String()
	}
	reply, err := r.store.Raw(ctx, r.store.Blocking, buffer, args...)
	if err != nil {
		return 0, fmt.Errorf("read event logs: %w", err)
	}
	if len(reply) > maxKeptReply {
		*buffer = redisclient.Buffer{}
	}
	found, err := r.parse(reply)
	if err != nil {
		return 0, fmt.Errorf("read event logs: %w", err)
	}
	missing, err := r.confirm(ctx, found)
	if err != nil {
		return 0, fmt.Errorf("wait for replicas of events: %w", err)
	}
	for i, p := range partitions {
		if err := r.all[p].take(ctx, after[i], found[p], len(found) == 0); err != nil {
			return events, err
		}
		events += len(found[p])
	}
	if missing || r.withheld.Load() > 0 {
		for _, p := range partitions {
			r.all[p].follow.hold(missing)
		}
	}
	if missing {
		r.awaitReplicas(ctx, partitions)
	}
	return events, nil
}

// parse reads the reply of XREAD: a map, or in the older protocol a list of pairs.
func (r *tailReader) parse(reply []byte) (map[int][]redisclient.Entry, error) {
	in := redisclient.NewReplyReader(reply)
	isMap := len(reply) > 0 && reply[0] == '%'
	n := in.Array()
	if isMap {
		n /= 2
	}
	found := make(map[int][]redisclient.Entry, min(n, len(r.byKey)))
	for ; n > 0 && in.Err == nil; n-- {
		if !isMap && in.Array() != 2 {
			in.Fail()
		}
		p, ok := r.byKey[string(in.Text())]
		entries, err := in.Entries(nil)
		if err != nil || !ok {
			return nil, redisclient.ErrReply
		}
		found[p] = entries
	}
	return found, in.Err
}

// confirm removes from found what replicas do not have yet. It is read again: after an inspection
// if the master does not have it either. It reports whether events are withheld because replicas
// are missing.
func (r *tailReader) confirm(ctx context.Context, found map[int][]redisclient.Entry) (missing bool, err error) {
	if r.store.Replicas.Want == 0 || len(found) == 0 {
		return false, nil
	}
	ends := make(map[int]signal.Position, len(found))
	for p, entries := range found {
		ends[p] = entries[len(entries)-1].Position
	}
	present, err := r.store.confirmRead(ctx, ends)
	if missing = withheld(err); err != nil && !missing {
		return false, err
	}
	for p, entries := range found {
		if missing {
			found[p] = upTo(entries, r.store.confirmed[p].position())
		} else if !present {
			r.all[p].doubt()
			delete(found, p)
		}
	}
	return missing, nil
}

// awaitReplicas returns when replicas are back, or after BlockTimeout.
func (r *tailReader) awaitReplicas(ctx context.Context, partitions []int) {
	ctx, cancel := context.WithTimeout(ctx, redisclient.BlockTimeout)
	defer cancel()
	r.store.Replicas.Await(ctx, r.store.ConfirmKey(partitions[0]))
}

// doubt records that entries of partitions may be removed before they are read.
func (r *tailReader) doubt(partitions []int) {
	for _, p := range partitions {
		r.all[p].doubt()
	}
}
