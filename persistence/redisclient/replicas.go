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

// probeReplicasEvery is the pause between two probes for missing replicas.
const probeReplicasEvery = 100 * time.Millisecond

// ErrNotWritten reports a change that was not sent to Redis, because replicas are known to be
// missing.
var ErrNotWritten = fmt.Errorf("%s: nothing was written", ReplicasMissing)

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

// slotOf names the outage of a slot: all slots of a single server have the same replicas.
func (c *Client) slotOf(confirm string) string {
	if _, cluster := c.RDB.(*redis.ClusterClient); cluster {
		return confirm
	}
	return ""
}

// Waits reports whether a write to the slot of confirm is to be confirmed by replicas.
// ErrNotWritten: it must not be sent.
func (c *Client) Waits(confirm string) (bool, error) {
	switch {
	case c.WaitReplicas == 0:
		return false, nil
	case c.outages.of(c.slotOf(confirm)) == nil:
		return true, nil
	case c.accept:
		return false, nil
	}
	return false, ErrNotWritten
}

// Unconfirmed records that replicas of the slot of confirm are missing if err is ErrReplicas. It
// returns the error of the write: nil if that is accepted without replicas.
func (c *Client) Unconfirmed(confirm string, err error) error {
	if !errors.Is(err, ErrReplicas) {
		return err
	}
	c.outages.begin(c.slotOf(confirm), confirm)
	if c.accept {
		return nil
	}
	return err
}

// AcceptsWithoutReplicas reports whether changes are acknowledged while replicas are missing.
func (c *Client) AcceptsWithoutReplicas() bool { return c.accept }

// CountUnconfirmed counts n changes that are acknowledged without replicas.
func (c *Client) CountUnconfirmed(n int) {
	if c.Metrics != nil {
		c.Metrics.unconfirmed.Add(float64(n))
	}
}

// Degraded reports whether replicas are known to be missing.
func (c *Client) Degraded() bool { return c.outages.any() }

// AwaitReplicas returns when no replicas of the slot of confirm are known to be missing, or when
// ctx ends.
func (c *Client) AwaitReplicas(ctx context.Context, confirm string) {
	if ended := c.outages.of(c.slotOf(confirm)); ended != nil {
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
}
