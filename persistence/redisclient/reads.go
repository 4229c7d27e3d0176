package redisclient

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/redis/go-redis/v9"
)

// errOtherServer reports that a slot has another master since the last wait. What was read before
// may be of the former one, and the replicas of the present one cannot confirm it.
var errOtherServer = errors.New("another server has the keys since")

// ConfirmRead waits until replicas have what was read from the slot of confirm before the call. It
// returns KindUnavailable if they are missing, unless that is accepted. Without
// Options.WaitReplicas it returns nil at once.
//
// Calls at the same time share waits: however many there are, at most two of a slot follow each
// other until all are answered.
func (c *Client) ConfirmRead(ctx context.Context, confirm string) error {
	waits, err := c.Waits(confirm)
	if waits {
		err = c.reads.confirm(ctx, c.slotOf(confirm), func(ctx context.Context) (string, error) {
			return c.confirmHere(ctx, confirm)
		})
		if err = c.Unconfirmed(confirm, err); c.accept && errors.Is(err, errOtherServer) {
			err = nil
		}
	}
	return Failed(err, "confirm what was read")
}

// confirmHere waits until replicas have all writes to the slot of confirm before the call. It returns
// the identity of the server that it has asked, also with ErrReplicas, or "" if that is not known.
func (c *Client) confirmHere(ctx context.Context, confirm string) (server string, err error) {
	info := redis.NewStringCmd(ctx)
	err = c.Confirm(ctx, confirm, func(pipe redis.Pipeliner) { info = pipe.Info(ctx, "server") })
	if refused := redis.Error(nil); errors.As(info.Err(), &refused) { // as managed stores may
		return "", c.Confirm(ctx, confirm, func(redis.Pipeliner) {})
	}
	return parseInfo(info.Val())["run_id"], err
}

// LearnServers records which server has the keys of each slot of the installation, so that ConfirmRead
// notices a failover between a read and the slot's first wait. Call it before the first read. Without
// Options.WaitReplicas it does nothing.
func (c *Client) LearnServers(ctx context.Context) error {
	if c.WaitReplicas == 0 {
		return nil
	}
	slots := []string{c.ConfirmAuthKey(), c.ConfirmNodeKey()}
	for p := range c.partitions {
		slots = append(slots, c.ConfirmKey(p))
	}
	known := map[redis.UniversalClient]string{}
	for _, confirm := range slots {
		var client redis.UniversalClient = c.RDB
		if cluster, ok := c.RDB.(*redis.ClusterClient); ok {
			master, err := cluster.MasterForKey(ctx, confirm)
			if err != nil {
				return Failed(err, "find the server of %s", confirm)
			}
			client = master
		}
		server, asked := known[client]
		if !asked {
			info, err := client.Info(ctx, "server").Result()
			if refused := redis.Error(nil); err != nil && !errors.As(err, &refused) { // else as managed stores may
				return Failed(err, "learn servers")
			}
			server = parseInfo(info)["run_id"]
			known[client] = server
		}
		c.reads.learn(c.slotOf(confirm), server)
	}
	return nil
}

// reads are the waits for replicas of those who have read.
type reads struct {
	mu   sync.Mutex
	last map[string]*sharedWait // by slot
}

// sharedWait is a wait for all who had read from a slot before it began.
type sharedWait struct {
	begun bool // guarded by reads.mu

	done   chan struct{} // closed when the others are set
	server string        // that confirmed; the one before if it is not known
	err    error
}

// learn records the server of a slot before its first wait.
func (r *reads) learn(slot, server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last[slot] == nil {
		w := &sharedWait{begun: true, done: make(chan struct{}), server: server}
		close(w.done)
		r.last[slot] = w
	}
}

// confirm calls wait, which returns as confirmHere does, or shares a call that begins after that of
// confirm. It returns errOtherServer if the server is another one than that of the call before.
func (r *reads) confirm(ctx context.Context, slot string, wait func(context.Context) (server string, err error)) error {
	r.mu.Lock()
	before := r.last[slot]
	if before != nil && !before.begun {
		r.mu.Unlock()
		select {
		case <-before.done:
			return before.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w := &sharedWait{done: make(chan struct{}), err: errors.New("the wait for replicas has ended early")}
	r.last[slot] = w
	r.mu.Unlock()
	defer close(w.done) // also if wait panics
	if before != nil {
		<-before.done
		w.server = before.server
	}
	r.mu.Lock()
	w.begun = true
	r.mu.Unlock()
	former := w.server
	server, err := wait(context.WithoutCancel(ctx)) // others wait for it, too
	w.server, w.err = cmp.Or(server, former), err
	if err == nil && former != "" && w.server != former {
		w.err = errOtherServer
	}
	return w.err
}
