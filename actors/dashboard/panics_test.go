package dashboard

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/panics"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// brokenOrder panics.
type brokenOrder struct{}

func (brokenOrder) apply(*flusher) { panic("broken order") }

// brokenSocket is a tap that panics at its next write.
type brokenSocket struct {
	tap
	broken bool
}

func (s *brokenSocket) write(w *rawWriter, b []byte) (int, error) {
	if s.broken {
		s.broken = false
		panic("broken socket")
	}
	return s.tap.write(w, b)
}

func TestFlusherContinuesAfterAPanic(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	first, _ := b.attach()
	broken := &brokenSocket{}
	broken.space = 1 << 20
	first.socket = broken
	_, other := b.attachWith("", 1<<20)
	b.settle()
	b.flusher.post(brokenOrder{})
	want := b.journal.append(created(alice, "BTC"))
	broken.broken = true
	b.settle()
	want = append(want, b.journal.append(created(alice, "ETH"))...)
	b.settle()
	for name, s := range map[string]*tap{"a connection whose write panicked": &broken.tap, "another one": other} {
		events, _ := s.sent(t)
		var got []string
		for _, e := range events {
			if e.Type == "signal.new" {
				got = append(got, e.ID)
			}
		}
		if len(got) != 2 || got[0] != want[0].String() || got[1] != want[1].String() {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestPanickingConnectionDoesNotStopRetries(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	first, _ := b.attach()
	broken := &brokenSocket{}
	first.socket = broken
	_, other := b.attach()
	b.pass() // both are refused
	b.journal.append(created(alice, "BTC"))
	broken.broken, broken.space, other.space = true, 1<<20, 1<<20
	b.settle()
	if broken.broken || len(other.out) == 0 {
		t.Errorf("written are %d bytes to another one, tried the first: %t", len(other.out), !broken.broken)
	}
}

// stuckSocket is a tap that panics when it is closed.
type stuckSocket struct{ tap }

func (s *stuckSocket) Close() {
	s.tap.Close()
	panic("stuck socket")
}

func TestPanickingConnectionDoesNotStopExpiry(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	first, _ := b.attach()
	stuck := &stuckSocket{}
	first.socket = stuck
	second, other := b.attach()
	b.pass()
	for _, p := range []*peer{second, first} {
		p.deadline = 1
		b.flusher.lifecycle.schedule(p)
	}
	b.pass()
	b.pass()
	if !stuck.ended || !other.ended {
		t.Errorf("the first is closed: %t, another one: %t", stuck.ended, other.ended)
	}
}

func TestPanickingReceiverEndsOnlyItsConnection(t *testing.T) {
	t.Parallel()
	for name, dial := range map[string]func(testing.TB) (client, server net.Conn){"kernel": tcpPair, "other": pipe} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newBench(t, nil).hub
			in := &poller{hub: h}
			defer in.close()
			listen := func(r *recorder) net.Conn {
				client, server := dial(t)
				newSocket(server, func() {}, h.start, in).listen(r)
				return client
			}
			broken, other := newRecorder(t), newRecorder(t)
			broken.panics = true
			first, second := listen(broken), listen(other)
			first.Write([]byte("x"))
			<-broken.end
			second.Write([]byte("y"))
			if got := <-other.got; got != "y" {
				t.Errorf("another connection got %q", got)
			}
			second.Close()
			<-other.end
		})
	}
}

// panickingConn panics at each write and close.
type panickingConn struct {
	net.Conn
	away   bool // writes fail without a panic, as in sendAway
	closed chan string
}

func (c *panickingConn) SetWriteDeadline(time.Time) error { return nil }

func (c *panickingConn) Write([]byte) (int, error) {
	if c.away {
		return 0, net.ErrClosed
	}
	panic("at a write")
}

func (c *panickingConn) CloseWrite() error {
	c.closed <- "for writing"
	panic("at the end")
}

func (c *panickingConn) Close() error {
	c.closed <- "for good"
	panic("at a close")
}

func TestPanickingWriteEndsOnlyItsConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	conn, taken := &panickingConn{closed: make(chan string)}, make(chan struct{})
	s := newSocket(conn, func() { taken <- struct{}{} }, b.hub.start, nil)
	if _, err := s.write(nil, []byte("x")); err != nil {
		t.Fatal(err)
	}
	<-taken
	if _, err := s.write(nil, []byte("y")); !errors.Is(err, panics.ErrPanicked) {
		t.Errorf("the next write ends with %v", err)
	}
	s.finish()
	if how := <-conn.closed; how != "for writing" {
		t.Errorf("it is closed %s", how)
	}
	s.Close()
	if how := <-conn.closed; how != "for good" {
		t.Errorf("it is closed %s", how)
	}
}

func TestPanicInSendAwayIsContained(t *testing.T) {
	t.Parallel()
	h := newBench(t, nil).hub
	h.draining = true
	conn := &panickingConn{away: true, closed: make(chan string)}
	for range 2 {
		h.serve(conn, &peer{settled: func() {}}, nil, nil)
		if how := <-conn.closed; how != "for good" {
			t.Errorf("it is closed %s", how)
		}
	}
}

func TestPanicInBackfillExpiryIsContained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newBench(t, nil).hub.resumer
		for _, account := range []signal.AccountID{alice, bob} {
			r.release(account, r.take(account))
		}
		r.mu.Lock()
		r.backfills[alice].expiry = nil // its end panics
		r.mu.Unlock()
		time.Sleep(2 * keepRead)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.backfills[alice] == nil || r.backfills[bob] != nil {
			t.Errorf("kept: %v", r.backfills)
		}
	})
}
