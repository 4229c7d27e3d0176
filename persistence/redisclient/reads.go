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

// Reads confirms what was read of a master, whose replicas may lack it.
type Reads struct {
	keys     Keys
	servers  *Servers
	replicas *Replicas
	waits    sharedWaits
}

// Confirm waits until replicas have what was read from the slot of confirm before the call. It
// returns KindUnavailable if they are missing, unless that is accepted. Without
// Options.WaitReplicas it returns nil at once.
//
// Calls at the same time share waits: however many there are, at most two of a slot follow each
// other until all are answered.
func (r *Reads) Confirm(ctx context.Context, confirm string) error {
	waits, err := r.replicas.Waits(confirm)
	if waits {
		err = r.waits.confirm(ctx, r.replicas.slotOf(confirm), func(ctx context.Context) (string, error) {
			return r.confirmHere(ctx, confirm)
		})
		if err = r.replicas.Unconfirmed(confirm, err); r.replicas.accept && errors.Is(err, errOtherServer) {
			err = nil
		}
	}
	return Failed(err, "confirm what was read")
}

// confirmHere waits until replicas have all writes to the slot of confirm before the call. It returns
// the identity of the server that it has asked, also with ErrReplicas, or "" if that is not known.
func (r *Reads) confirmHere(ctx context.Context, confirm string) (server string, err error) {
	info := redis.NewStringCmd(ctx)
	err = r.replicas.Confirm(ctx, confirm, func(pipe redis.Pipeliner) { info = pipe.Info(ctx, "server") })
	if refused := redis.Error(nil); errors.As(info.Err(), &refused) { // as managed stores may
		return "", r.replicas.Confirm(ctx, confirm, func(redis.Pipeliner) {})
	}
	return parseInfo(info.Val())["run_id"], err
}

// LearnServers records which server has the keys of each slot of the installation, so that Confirm
// notices a failover between a read and the slot's first wait. Call it before the first read. Without
// Options.WaitReplicas it does nothing.
func (r *Reads) LearnServers(ctx context.Context) error {
	if r.replicas.Want == 0 {
		return nil
	}
	slots := []string{r.keys.ConfirmAuthKey(), r.keys.ConfirmNodeKey()}
	for p := range r.keys.Partitions() {
		slots = append(slots, r.keys.ConfirmKey(p))
	}
	known := map[redis.UniversalClient]string{}
	for _, confirm := range slots {
		client, err := r.servers.of(ctx, confirm)
		if err != nil {
			return Failed(err, "find the server of %s", confirm)
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
		r.waits.learn(r.replicas.slotOf(confirm), server)
	}
	return nil
}

// sharedWaits are the waits for replicas of those who have read.
type sharedWaits struct {
	mu   sync.Mutex
	last map[string]*sharedWait // by slot
}

// sharedWait is a wait for all who had read from a slot before it began.
type sharedWait struct {
	begun bool // guarded by sharedWaits.mu

	done   chan struct{} // closed when the others are set
	server string        // that confirmed; the one before if it is not known
	err    error
}

// learn records the server of a slot before its first wait.
func (s *sharedWaits) learn(slot, server string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last[slot] == nil {
		w := &sharedWait{begun: true, done: make(chan struct{}), server: server}
		close(w.done)
		s.last[slot] = w
	}
}

// confirm calls wait, which returns as confirmHere does, or shares a call that begins after that of
// confirm. It returns errOtherServer if the server is another one than that of the call before.
func (s *sharedWaits) confirm(ctx context.Context, slot string, wait func(context.Context) (server string, err error)) error {
	s.mu.Lock()
	before := s.last[slot]
	if before != nil && !before.begun {
		s.mu.Unlock()
		select {
		case <-before.done:
			return before.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w := &sharedWait{done: make(chan struct{}), err: errors.New("the wait for replicas has ended early")}
	s.last[slot] = w
	s.mu.Unlock()
	defer close(w.done) // also if wait panics
	if before != nil {
		<-before.done
		w.server = before.server
	}
	s.mu.Lock()
	w.begun = true
	s.mu.Unlock()
	former := w.server
	server, err := wait(context.WithoutCancel(ctx)) // others wait for it, too
	w.server, w.err = cmp.Or(server, former), err
	if err == nil && former != "" && w.server != former {
		w.err = errOtherServer
	}
	return w.err
}
