package eventlog

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// A follower that panics at an event misses it and is notified of the gap. The other followers, and
// the later events, are not affected.
func TestPanickingSubscriberAffectsNoOther(t *testing.T) {
	t.Parallel()
	b := newTailBench(t, redistest.New(t), TailOptions{Count: 1})
	handled := make(chan string, 10)
	b.tail.subscribers.events = append([]func(int, []signal.Event){func(_ int, events []signal.Event) {
		for _, e := range events {
			if string(e.Data) == "2" {
				panic("this one")
			}
			handled <- string(e.Data)
		}
	}}, b.tail.subscribers.events...)
	b.run()
	const p = 1
	account := accountIn(b.store, p)
	for _, text := range []string{"1", "2", "3"} {
		b.append(noted(account, text))
	}
	eventually(t, func() bool { return len(b.texts(p)) == 3 })
	b.wantTexts(p, "1", "2", "3")
	if first, second := <-handled, <-handled; first != "1" || second != "3" {
		t.Errorf("the one that panicked has handled %s and %s, want 1 and 3", first, second)
	}
	if n := b.gapsOf(p); n != 1 {
		t.Errorf("it was notified of %d gaps, want 1", n)
	}
}

func TestTailContinuesAfterPanic(t *testing.T) {
	t.Parallel()
	b := newTailBench(t, redistest.New(t), TailOptions{Count: 1})
	faulty := &panicking{}
	b.store.Blocking.(*redis.Client).Options().Limiter = faulty
	b.run()
	const p = 1
	account := accountIn(b.store, p)
	b.append(noted(account, "1"))
	eventually(t, func() bool { return len(b.texts(p)) == 1 })
	faulty.next.Store(true)
	b.append(noted(account, "2"))
	b.append(noted(account, "3"))
	eventually(t, func() bool { return len(b.texts(p)) == 3 && !faulty.next.Load() })
	b.wantTexts(p, "1", "2", "3")
	notified := 0
	b.tail.subscribers.notify(p, []func(int){func(int) { panic("at a gap") }, func(int) { notified++ }})
	if notified != 1 {
		t.Errorf("the follower after one that panics is notified %d times", notified)
	}
}
