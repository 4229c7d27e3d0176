package redisclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/tasks"
)

const (
	// probeReplicasEvery is the pause between two probes for missing replicas.
	probeReplicasEvery = 100 * time.Millisecond
	// confirmKept is how long a key of ConfirmKey, ConfirmAuthKey or ConfirmNodeKey is kept.
	confirmKept = time.Minute
)

// ErrNotWritten reports a change that was not sent to Redis, because replicas are known to be
// missing.
var ErrNotWritten = fmt.Errorf("%s: nothing was written", ReplicasMissing)

// Replicas are those that must have a change before it is acknowledged. They know which are missing.
type Replicas struct {
	Want    int           // Options.WaitReplicas
	accept  bool          // Options.AcceptWithoutReplicas
	timeout time.Duration // how long Redis waits for them
	servers *Servers
	metrics *Metrics // may be nil
	outages outages
}

func newReplicas(s *Servers, o Options) *Replicas {
	r := &Replicas{Want: o.WaitReplicas, accept: o.AcceptWithoutReplicas, timeout: o.Timeout / 2, servers: s, metrics: o.Metrics}
	r.outages = outages{log: o.Log, metrics: o.Metrics, ended: map[string]chan struct{}{}}
	r.outages.probe = func(ctx context.Context, confirm string) error {
		return panics.Catch(o.Log, panics.Log, func() error { return r.Confirm(ctx, confirm, func(redis.Pipeliner) {}) })
	}
	return r
}

// Confirm carries out commands and waits for the replicas, also while they are missing.
func (r *Replicas) Confirm(ctx context.Context, confirm string, add func(pipe redis.Pipeliner)) error {
	client, err := r.servers.of(ctx, confirm) // WAIT has no key and would go to any node
	if err != nil {
		return err
	}
	pipe := client.Pipeline()
	add(pipe)
	pipe.Set(ctx, confirm, "", confirmKept)
	wait := pipe.Do(ctx, WaitFor(r.Want, r.timeout)...)
	err = Execute(ctx, pipe)
	if err == nil {
		err = Lagging(wait, r.Want)
	}
	if cluster, ok := r.servers.cluster(); ok && err != nil {
		cluster.ReloadState(ctx)
	}
	return err
}

// slotOf names the outage of a slot: all slots of a single server have the same replicas.
func (r *Replicas) slotOf(confirm string) string {
	if _, cluster := r.servers.cluster(); cluster {
		return confirm
	}
	return ""
}

// Waits reports whether a write to the slot of confirm is to be confirmed by replicas.
// ErrNotWritten: it must not be sent.
func (r *Replicas) Waits(confirm string) (bool, error) {
	switch {
	case r.Want == 0:
		return false, nil
	case r.outages.of(r.slotOf(confirm)) == nil:
		return true, nil
	case r.accept:
		return false, nil
	}
	return false, ErrNotWritten
}

// Unconfirmed records that replicas of the slot of confirm are missing if err is ErrReplicas. It
// returns the error of the write: nil if that is accepted without replicas.
func (r *Replicas) Unconfirmed(confirm string, err error) error {
	if !errors.Is(err, ErrReplicas) {
		return err
	}
	r.outages.begin(r.slotOf(confirm), confirm)
	if r.accept {
		return nil
	}
	return err
}

// Optional reports whether changes are acknowledged while replicas are missing.
func (r *Replicas) Optional() bool { return r.accept }

// CountUnconfirmed counts n changes that are acknowledged without replicas.
func (r *Replicas) CountUnconfirmed(n int) {
	if r.metrics != nil {
		r.metrics.unconfirmed.Add(float64(n))
	}
}

// Missing reports whether replicas are known to be missing.
func (r *Replicas) Missing() bool { return r.outages.any() }

// Await returns when no replicas of the slot of confirm are known to be missing, or when
// ctx ends.
func (r *Replicas) Await(ctx context.Context, confirm string) {
	if ended := r.outages.of(r.slotOf(confirm)); ended != nil {
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
}

// outages are the times in which replicas are missing: each begins with a write that too few of
// them have confirmed in time, and ends with a probe that enough of them have confirmed.
type outages struct {
	probe   func(ctx context.Context, confirm string) error // a write that replicas must confirm
	log     *slog.Logger
	metrics *Metrics // may be nil
	probes  tasks.Group

	mu    sync.Mutex
	ended map[string]chan struct{} // of the present outages; closed at their end
}

// begin records that the replicas of a slot are missing. It returns at once.
func (o *outages) begin(slot, confirm string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended[slot] != nil {
		return
	}
	ended := make(chan struct{})
	if !o.probes.Go(context.Background(), func(ctx context.Context) {
		defer close(ended)
		panics.Guard(o.log, panics.Log, func() {
			for o.probe(ctx, confirm) != nil && backoff.Sleep(ctx, probeReplicasEvery) {
			}
			if ctx.Err() == nil {
				o.end(slot)
			}
		})
	}) {
		return
	}
	if o.ended[slot] = ended; len(o.ended) == 1 {
		o.log.Warn("replicas are missing", "component", "persistence")
		o.metrics.setDegraded(1)
	}
}

func (o *outages) end(slot string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.ended, slot); len(o.ended) == 0 {
		o.log.Info("replicas are back", "component", "persistence")
		o.metrics.setDegraded(0)
	}
}

// of returns a channel that is closed at the end of the slot's outage, or nil without one.
func (o *outages) of(slot string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended[slot]
}

// any reports whether replicas of any slot are missing.
func (o *outages) any() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.ended) > 0
}

// WaitFor returns the arguments of a WAIT.
func WaitFor(replicas int, timeout time.Duration) []any {
	return []any{"WAIT", replicas, max(1, timeout.Milliseconds())}
}

// Lagging returns an error if the reply to a WAIT counts too few replicas.
func Lagging(wait *redis.Cmd, replicas int) error {
	n, err := wait.Int()
	switch {
	case err != nil:
		return fmt.Errorf("wait for replicas: %w", err)
	case n < replicas:
		return fmt.Errorf("%w: %d of %d have the write", ErrReplicas, n, replicas)
	}
	return nil
}
