package dashboard

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// follower is a tail that follows a partition when the test allows it.
type follower struct {
	mu       sync.Mutex
	follows  int
	shown    map[int]int // by partition
	attached chan struct{}
	err      error // of Await, once attached
}

func (f *follower) Follow(int) func() {
	f.add(+1)
	return func() { f.add(-1) }
}

func (f *follower) Shown(partition, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shown == nil {
		f.shown = map[int]int{}
	}
	f.shown[partition] += times
}

func (f *follower) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.follows += n
}

// count returns how often partitions are followed.
func (f *follower) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.follows
}

// times returns how often events of the test's partition were shown.
func (f *follower) times() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shown[testPartition]
}

func (f *follower) Attached(int) bool {
	select {
	case <-f.attached:
		return f.err == nil
	default:
		return false
	}
}

func (f *follower) Await(ctx context.Context, _ int) error {
	select {
	case <-f.attached:
		return f.err
	case <-ctx.Done():
		return signal.Unavailable(ctx.Err())
	}
}

// TestOnlyListenersHaveFrames: an account has frames from its first connection on, and what it
// missed before comes from the event log.
func TestOnlyListenersHaveFrames(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	held := func(account signal.AccountID) bool {
		s.hub.ring.mu.RLock()
		defer s.hub.ring.mu.RUnlock()
		return s.hub.ring.last[account] > 0
	}
	missed := s.journal.append(several(3)...)
	if held(alice) || held(bob) {
		t.Error("the ring holds frames of accounts without listeners")
	}
	c := s.welcomed(principalOf(alice))
	live := s.journal.append(several(2)...)
	for range every(live) {
		c.want("signal.new")
	}
	if !held(alice) || held(bob) {
		t.Errorf("the ring holds frames of alice %v, of bob %v; only alice listens", held(alice), held(bob))
	}
	found, err := s.hub.resumer.findAfter(t.Context(), alice, missed[0])
	if want := every(slices.Concat(missed, live))[1:]; err != nil || !found.complete || len(found.frames) != len(want) {
		t.Errorf("resume found %d frames, complete %v, %v; want %d", len(found.frames), found.complete, err, len(want))
	}
	reads := s.journal.reads
	wantReplay(t, s.hub.resumer, everything, live[0], every(live)[1:])
	if s.journal.reads != reads {
		t.Error("what the ring holds is read from the log")
	}
}

// TestFramesAfterTheLastConnection: a client that comes back soon resumes from the ring. Later
// its account has no frames, and its resume reads the log.
func TestFramesAfterTheLastConnection(t *testing.T) {
	t.Parallel()
	s, c := newClient(t, nil)
	first := s.journal.append(created(alice, "BTC"))[0]
	c.want("signal.new")
	c.ws.Close()
	until(t, "the connection has ended", func() bool {
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		return s.hub.open == 0
	})
	s.hub.Trim()
	soon := s.journal.append(created(alice, "ETH"))
	wantReplay(t, s.hub.resumer, everything, first, soon)
	if s.journal.reads > 0 {
		t.Error("a resume soon after the connection has ended reads the log")
	}
	s.hub.o.RingIdle = 0
	s.hub.Trim()
	late := s.journal.append(created(alice, "SOL"))
	s.welcomed(principalOf(alice))
	later := s.journal.append(created(alice, "BTC"))
	wantReplay(t, s.hub.resumer, everything, first, slices.Concat(soon, late, later))
}

// TestWelcomeWaitsForEvents: a client gets every event from its welcome on, so that comes after
// its partition is followed; the partition is followed as long as the account has connections.
func TestWelcomeWaitsForEvents(t *testing.T) {
	t.Parallel()
	f := &follower{attached: make(chan struct{})}
	s := newService(t, func(o *Options) { o.Follower = f })
	c := s.dial(principalOf(alice))
	c.send(`{"action":"ping","ref":"1"}`) // waits for the welcome
	until(t, "the partition is followed", func() bool { return f.count() == 1 })
	s.journal.append(created(alice, "BTC")) // before the welcome
	close(f.attached)
	c.want("welcome")
	c.want("pong")
	second := s.welcomed(principalOf(alice))
	s.journal.append(created(alice, "ETH"))
	c.want("signal.new")
	second.want("signal.new")
	if n := f.count(); n != 1 {
		t.Errorf("the partition is followed %d times for one account", n)
	}
	if n := f.times(); n != 3 { // the first event to one connection, the second to two
		t.Errorf("events were shown %d times, want 3", n)
	}
	c.ws.Close()
	second.ws.Close()
	until(t, "the partition is released", func() bool { return f.count() == 0 })
	s.journal.append(created(alice, "SOL"), created(bob, "SOL"))
	if n := f.times(); n != 3 {
		t.Errorf("events were shown %d times after the connections have ended, want 3", n)
	}
}

// TestPartitionThatCannotBeFollowed: the client is asked to come back.
func TestPartitionThatCannotBeFollowed(t *testing.T) {
	t.Parallel()
	f := &follower{attached: make(chan struct{}), err: signal.Unavailable(context.DeadlineExceeded)}
	close(f.attached)
	s := newService(t, func(o *Options) { o.Follower = f })
	s.dial(principalOf(alice)).wantClose(closeGoingAway)
	until(t, "the partition is released", func() bool { return f.count() == 0 })
}

// TestGapFreesFrames: after events were missed, frames from before cannot serve a resume.
func TestGapFreesFrames(t *testing.T) {
	t.Parallel()
	r := newRing(8, 1000)
	r.add(0, at(1), at(3), framesAt(alice, "BTC", 1, 2, 3))
	r.add(1, at(4), at(4), framesAt(bob, "BTC", 4))
	r.listen(0, alice)
	r.forget(0)
	if n := len(framesAt(bob, "BTC", 4)[0].text); r.bytes != n {
		t.Errorf("the ring has %d bytes, want the %d of bob's frame", r.bytes, n)
	}
	r.add(0, at(2), at(2), framesAt(alice, "ETH", 2)) // Redis went back
	if e := r.after(0, alice, everything, before(at(2)), at(0), 9); !e.covered || len(e.frames) != 1 {
		t.Errorf("after the gap: %+v", e)
	}
	for ms := range int64(20) { // over the forgotten places
		r.add(1, at(5+ms), at(5+ms), framesAt(bob, "BTC", 5+ms))
	}
	if e := r.after(1, bob, everything, at(20), at(0), 9); !e.covered || len(e.frames) != 4 {
		t.Errorf("after the replacement: %+v", e)
	}
}

// TestRevocationBeforeTheWelcome: a key that is revoked after it was checked, and before the partition of
// its account is followed, opens no connection.
func TestRevocationBeforeTheWelcome(t *testing.T) {
	t.Parallel()
	f := &follower{attached: make(chan struct{})}
	s := newService(t, func(o *Options) { o.Follower = f })
	key := *principalOf(alice)
	key.Key = "key_1"
	c := s.dial(&key)
	until(t, "the partition is followed", func() bool { return f.count() == 1 })
	s.hub.Revoke([]signal.Event{{Account: alice, Type: signal.KeyRevoked, Subject: "key_1"}})
	close(f.attached)
	c.wantClose(closeUnauth)
	other := s.welcomed(principalOf(alice))
	s.hub.Revoke([]signal.Event{{Account: alice, Type: signal.AccountDeleted}})
	other.wantClose(closeForbidden)
}
