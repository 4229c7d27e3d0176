package eventlog

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// LogOptions are the limits of a Log.
type LogOptions struct {
	// AppendTimeout bounds the time from a caller's Append to its answer; default 2 s.
	AppendTimeout time.Duration
	// Queue is how many operations may wait in a partition; default 4096. Beyond
	// it Append fails at once.
	Queue int
	// Writers is how many goroutines write; default 2 on a single server and one a
	// partition on a cluster.
	Writers int
	Log     *slog.Logger // nil: the Store's
}

// Log appends changes. The callers that come while a batch is in flight form the next one, so
// that nothing is delayed to fill a batch. A batch costs little more than one operation.
//
// What Append promises:
//   - A nil error: Redis has the whole change, and so have Options.WaitReplicas replicas, unless
//     they are missing and Options.AcceptWithoutReplicas is set.
//     With appendfsync everysec the end of the Redis process loses nothing, a power cut up
//     to a second. The caller may reuse the memory of the change, which it must not after an error.
//   - KindConflict: a guard refused; nothing has changed.
//   - KindUnavailable: the outcome is not known. The change may have been made, or may yet
//     be made within moments, but never twice. Nothing was made if it is
//     redisclient.ErrNotWritten.
//   - Events of one caller that waits for each answer stand in the log in that order.
//
// All methods are safe for concurrent use.
type Log struct {
	store   *Store
	writers []*writer
	wg      sync.WaitGroup
}

var errClosed = errors.New("the log is closed")

// NewLog starts the writers of a log. Close ends them.
func NewLog(s *Store, o LogOptions) *Log {
	o.AppendTimeout = cmp.Or(o.AppendTimeout, 2*time.Second)
	o.Queue = cmp.Or(o.Queue, 4096)
	o.Log = cmp.Or(o.Log, s.Log)
	if _, cluster := s.RDB.(*redis.ClusterClient); cluster {
		// Partitions on different nodes must not wait for each other's failures.
		o.Writers = s.Partitions()
	}
	o.Writers = min(cmp.Or(o.Writers, 2), s.Partitions())
	l := &Log{store: s}
	name := writerName()
	for range o.Writers {
		l.writers = append(l.writers, newWriter(s, o))
	}
	for p := range s.Partitions() {
		l.writers[p%o.Writers].adopt(s.Keys, p, name)
	}
	for _, w := range l.writers {
		l.wg.Go(w.run)
	}
	return l
}

// writerName returns a name that no other log of any process has.
func writerName() string {
	var b [9]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Append stores a change and returns the position of its first event; the k-th event, from
// 0, is at Plus(k). Without an event it is the time of the change. It returns when ctx ends,
// although the queued change may still be made.
func (l *Log) Append(ctx context.Context, c signal.Change) (signal.Position, error) {
	if c.Alert != nil && c.Alert.Claim != nil {
		return l.appendClaimed(ctx, c)
	}
	return l.append(ctx, c)
}

func (l *Log) append(ctx context.Context, c signal.Change) (signal.Position, error) {
	p := l.store.Partition(c.Account)
	return l.Apply(ctx, p, changeOperation(l.store.Keys, p, &c, l.store.Now()))
}

// appendClaimed appends a change with an alert whose claim it gets.
func (l *Log) appendClaimed(ctx context.Context, c signal.Change) (signal.Position, error) {
	select {
	case <-c.Alert.Claim:
	default:
		return signal.Position{}, errAlertQueued
	}
	p, err := l.append(ctx, c)
	if signal.KindOf(err) == signal.KindConflict {
		c.Alert.Claim <- struct{}{}
	}
	return p, err
}

// Apply has the append script carry out an operation in partition p.
func (l *Log) Apply(ctx context.Context, p int, o *Operation) (signal.Position, error) {
	r := l.CarryOut(ctx, p, o)
	return r.position, r.Err
}

// CarryOut is like Apply but also returns the deliveries that were left out.
func (l *Log) CarryOut(ctx context.Context, p int, o *Operation) outcome {
	if err := o.check(); err != nil {
		return outcome{Err: fmt.Errorf("append to partition %d: %w", p, err)}
	}
	if ctx.Err() != nil {
		return outcome{Err: redisclient.Unavailable(ctx.Err())}
	}
	w := l.writers[p%len(l.writers)]
	if err := w.enqueue(p, o); errors.Is(err, errClosed) {
		return outcome{Err: signal.Stopping(err)}
	} else if err != nil {
		return outcome{Err: redisclient.Unavailable(err)}
	}
	select {
	case r := <-o.Done:
		return r
	case <-ctx.Done():
		return outcome{Err: redisclient.Unavailable(ctx.Err())}
	}
}

// Close waits until every queued change has been answered; later ones are refused. If ctx ends
// first it returns its error, and the rest is answered by the timeouts.
func (l *Log) Close(ctx context.Context) error {
	for _, w := range l.writers {
		w.close()
	}
	done := make(chan struct{})
	go func() {
		l.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close log: %w", ctx.Err())
	}
}
