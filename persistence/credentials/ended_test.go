package credentials

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestEndedCredentialsReachAllNodes: also those of other accounts' partitions, in order, from the
// moment at which missed was called.
func TestEndedCredentialsReachAllNodes(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sent := []signal.Event{
		newEvent("acc_1", signal.KeyRevoked, "key_1"),
		newEvent("acc_2", signal.SessionEnded, ""),
		newEvent("acc_3", signal.AccountDeleted, ""),
	}
	if err := s.Notify(ctx, []signal.Event{newEvent("acc_0", signal.KeyRevoked, "before")}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var got []signal.Event
	began, all := make(chan struct{}), make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		s.Follow(ctx, func(events []signal.Event) {
			mu.Lock()
			defer mu.Unlock()
			if got = append(got, events...); len(got) == len(sent) {
				close(all)
			}
		}, sync.OnceFunc(func() { close(began) }))
	})
	<-began
	add := &redis.XAddArgs{Stream: s.EndedKey(), Values: []string{"e", "not readable"}}
	if err := s.RDB.XAdd(ctx, add).Err(); err != nil {
		t.Fatal(err)
	}
	for _, e := range sent {
		if err := s.Notify(ctx, []signal.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-all:
	case <-time.After(30 * time.Second):
		t.Fatal("the events have not arrived")
	}
	cancel()
	ended.Wait()
	for i := range got {
		if got[i].Position.IsZero() {
			t.Error("an event has no time")
		}
		got[i].Position = signal.Position{}
	}
	if !slices.EqualFunc(got, sent, func(a, b signal.Event) bool {
		return a.ID == b.ID && a.Type == b.Type && a.Account == b.Account && a.Subject == b.Subject
	}) {
		t.Errorf("got %v, want %v", got, sent)
	}
}

// TestEndedCredentialsAreFollowedFromANewBeginning deletes the stream after its ids were those of a later hour, as after
// a clock that went back.
func TestEndedCredentialsAreFollowedFromANewBeginning(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, missed := make(chan signal.Event, 10), make(chan struct{}, 10)
	var following sync.WaitGroup
	following.Go(func() {
		s.Follow(ctx, func(events []signal.Event) {
			for _, e := range events {
				got <- e
			}
		}, func() { missed <- struct{}{} })
	})
	defer following.Wait()
	defer cancel()
	<-missed
	at := s.Now().Add(time.Hour).UnixMilli()
	add := &redis.XAddArgs{Stream: s.EndedKey(), ID: fmt.Sprintf("%d-1", at), Values: []string{"e", "not readable"}}
	if err := s.RDB.XAdd(ctx, add).Err(); err != nil {
		t.Fatal(err)
	}
	notify := func() {
		if err := s.Notify(ctx, []signal.Event{newEvent("acc_1", signal.KeyRevoked, "key_1")}); err != nil {
			t.Fatal(err)
		}
	}
	notify()
	if e := <-got; e.Position.MS != at {
		t.Fatalf("the first one is at %v", e.Position)
	}
	if err := s.RDB.Del(ctx, s.EndedKey()).Err(); err != nil {
		t.Fatal(err)
	}
	notify()
	// What the caches of this node have may have ended meanwhile.
	select {
	case <-missed:
	case <-time.After(30 * time.Second):
		t.Fatal("the new beginning is not noticed")
	}
	notify()
	select {
	case <-got:
	case <-time.After(30 * time.Second):
		t.Fatal("the events have not arrived")
	}
}

// TestANodeThatIsFarBehindClearsItsCaches lets more credentials end than the stream keeps while a node does not read it.
func TestANodeThatIsFarBehindClearsItsCaches(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	missed, first, resume, last := make(chan struct{}, 10), make(chan struct{}), make(chan struct{}), make(chan int, 100)
	var following sync.WaitGroup
	following.Go(func() {
		began := false
		s.Follow(ctx, func(events []signal.Event) {
			if !began {
				began = true
				close(first)
				<-resume
			}
			last <- len(events)
		}, func() { missed <- struct{}{} })
	})
	defer following.Wait()
	defer cancel()
	<-missed
	notify := func(n int) {
		events := make([]signal.Event, n)
		for i := range events {
			events[i] = newEvent("acc_1", signal.KeyRevoked, fmt.Sprint("key_", i))
		}
		if err := s.Notify(ctx, events); err != nil {
			t.Fatal(err)
		}
	}
	notify(1)
	<-first
	notify(3 * maxEnded)
	close(resume)
	if n := <-last; n != 1 || len(missed) != 0 {
		t.Fatalf("%d events, %d gaps", n, len(missed))
	}
	<-missed // before it goes on
	if n := <-last; n != maxEnded {
		t.Errorf("it goes on with %d events", n)
	}
}
