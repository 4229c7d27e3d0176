package redisclient

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

func newReads() *sharedWaits { return &sharedWaits{last: map[string]*sharedWait{}} }

// Reads that come while a wait is under way share the next one, which begins after all of them.
func TestReadsShareWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReads()
		var mu sync.Mutex
		var began []time.Time // of waits
		wait := func(context.Context) (string, error) {
			mu.Lock()
			began = append(began, time.Now())
			mu.Unlock()
			time.Sleep(time.Second)
			return "server", nil
		}
		start := time.Now()
		var all sync.WaitGroup
		for i := range 10 { // within the first wait
			all.Go(func() {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
				if err := r.confirm(t.Context(), "slot", wait); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); i > 0 && took != 2*time.Second {
					t.Errorf("read %d is confirmed after %s, want the end of the second wait", i, took)
				}
			})
		}
		all.Wait()
		if len(began) != 2 || began[1].Sub(start) != time.Second {
			t.Errorf("waits began at %v, want two that follow each other", began)
		}
	})
}

// Waits of different slots do not follow each other.
func TestReadsOfOtherSlotsDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReads()
		begin := time.Now()
		var all sync.WaitGroup
		for _, slot := range []string{"a", "b", "c"} {
			all.Go(func() {
				_ = r.confirm(t.Context(), slot, func(context.Context) (string, error) {
					time.Sleep(time.Second)
					return "", nil
				})
			})
		}
		all.Wait()
		if took := time.Since(begin); took != time.Second {
			t.Errorf("it took %s, want a second", took)
		}
	})
}

// The end of the request that began a wait does not end it for the others, and one that shares a
// wait does not outlive its own request.
func TestAWaitOutlivesTheRequestThatBeganIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReads()
		wait := func(ctx context.Context) (string, error) {
			time.Sleep(time.Second)
			return "", ctx.Err()
		}
		go func() { _ = r.confirm(t.Context(), "slot", wait) }()
		synctest.Wait()
		first, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { _ = r.confirm(first, "slot", wait) })
		synctest.Wait()
		all.Go(func() {
			if err := r.confirm(t.Context(), "slot", wait); err != nil {
				t.Errorf("one that shares the wait: %v", err)
			}
		})
		all.Go(func() {
			if err := r.confirm(first, "slot", wait); !errors.Is(err, context.Canceled) {
				t.Errorf("one that has left: %v", err)
			}
		})
		synctest.Wait()
		cancel()
		all.Wait()
	})
}

// Who reads from a server cannot be confirmed by the replicas of another one.
func TestAnotherServerDoesNotConfirm(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	r := newReads()
	for i, c := range []struct {
		server string
		err    error
		want   error
	}{
		{"one", nil, nil},
		{"one", nil, nil},
		{"two", nil, errOtherServer},
		{"two", nil, nil},
		{"", failed, failed},
		{"", nil, nil}, // it is not known
		{"three", failed, failed},
		{"three", nil, nil}, // the one that failed has refused what was read before
		{"", failed, failed},
		{"four", nil, errOtherServer},
	} {
		err := r.confirm(t.Context(), "slot", func(context.Context) (string, error) { return c.server, c.err })
		if !errors.Is(err, c.want) {
			t.Errorf("call %d: %v, want %v", i, err, c.want)
		}
	}
}

// A read of a master is confirmed by its own replica, and not by one that has taken its place, unless that is accepted.
func TestConfirmRead(t *testing.T) {
	t.Parallel()
	master, replica, other := redistest.New(t), redistest.New(t), redistest.New(t)
	replica.Follow(master)
	proxy := redistest.NewProxy(t, master)
	o := Options{URL: proxy.URL(), WaitReplicas: 1, Timeout: time.Minute}
	refusing, fresh := openClient(t, o), openClient(t, o)
	if err := fresh.Reads.LearnServers(t.Context()); err != nil { // it confirms nothing before the failover
		t.Fatal(err)
	}
	o.AcceptWithoutReplicas = true
	accepting := openClient(t, o)
	read := func(c *Client) error { return c.Reads.Confirm(t.Context(), c.ConfirmKey(1)) }
	for _, c := range []*Client{refusing, accepting} {
		if err := read(c); err != nil {
			t.Fatal(err)
		}
	}
	master.Client().Do(t.Context(), "ACL", "SETUSER", "other", "on", ">secret", "~*", "+@all", "-info")
	o.URL = master.URLFor("other", "secret")
	withoutInfo := openClient(t, o)
	if err := withoutInfo.Reads.LearnServers(t.Context()); err != nil {
		t.Errorf("a server that refuses INFO: %v", err)
	}
	if err := read(withoutInfo); err != nil {
		t.Errorf("a server that refuses INFO does not confirm: %v", err)
	}
	replica.Detach()
	replica.Promote()
	other.Follow(replica)
	proxy.Switch(replica)
	for c, refused := range map[*Client]bool{refusing: true, fresh: true, accepting: false} {
		// Connections to the former master fail first.
		redistest.Eventually(t, func() bool { return c.RDB.Ping(t.Context()).Err() == nil })
		var err error
		for err = read(c); err != nil && !errors.Is(err, errOtherServer); err = read(c) {
			if signal.KindOf(err) != signal.KindUnavailable {
				t.Fatal(err)
			}
		}
		if errors.Is(err, errOtherServer) != refused {
			t.Errorf("the first read of another server, to be refused %t: %v", refused, err)
		}
		if err := read(c); err != nil {
			t.Errorf("what was read there: %v", err)
		}
	}
}
