package dashboard

import (
	"runtime"
	"sync/atomic"
	"testing"
)

// With one processor that is always busy the runtime polls the network every 10 ms only.
func TestTheNetworkIsPolledDuringAPass(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	client, server := tcpPair(t)
	f := newBench(t, nil).flusher
	defer f.network.close()
	yield := func() {
		f.writes = yieldEvery - 1
		f.yield()
	}
	yield() // opens it
	var got atomic.Bool
	go func() {
		server.Read(make([]byte, 1))
		got.Store(true)
	}()
	runtime.Gosched() // it waits for the network now
	client.Write([]byte("x"))
	polls := 0
	for ; !got.Load() && polls < 1000; polls++ {
		f.crowded = false
		yield()
	}
	if polls > 20 {
		t.Errorf("what had arrived was read after %d polls, want a few", polls)
	}
}

// A poll takes until no other goroutine is runnable, which may be long.
func TestAPassIsNotHeldUpByOtherGoroutines(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f := newBench(t, nil).flusher
	defer f.network.close()
	var end atomic.Bool
	defer end.Store(true)
	for range 2 {
		go func() {
			for !end.Load() {
				runtime.Gosched()
			}
		}()
	}
	for n := 0; !f.crowded; n++ {
		if n == 1000 {
			t.Fatal("the flusher polls although others are always runnable")
		}
		f.writes = yieldEvery - 1
		f.yield()
	}
	f.work()
	if f.crowded {
		t.Error("the next pass does not try again")
	}
}

func TestAClosedPollLetsOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var p netPoll
	p.poll()
	p.close()
	var ran atomic.Bool
	go ran.Store(true)
	for range 1000 { // now and then the scheduler picks the one that yields first
		p.poll()
	}
	if p.file != nil || !ran.Load() {
		t.Errorf("opened again: %t, another goroutine ran: %t", p.file != nil, ran.Load())
	}
}
