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
	var g gate
	defer g.close()
	g.pass() // opens it
	var got atomic.Bool
	go func() {
		server.Read(make([]byte, 1))
		got.Store(true)
	}()
	runtime.Gosched() // it waits for the network now
	client.Write([]byte("x"))
	passes := 0
	for ; !got.Load() && passes < 1000; passes++ {
		g.pass()
	}
	if passes > 20 {
		t.Errorf("what had arrived was read after %d passes through the gate, want a few", passes)
	}
}

func TestAClosedGateLetsOthersRun(t *testing.T) {
	t.Parallel()
	var g gate
	g.pass()
	g.close()
	g.pass()
	if g.file != nil {
		t.Error("it was opened again")
	}
}
