package dashboard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestNextLevel(t *testing.T) {
	t.Parallel()
	const many, few = 200, 199 // frames a second: 1 and less in 5 ms
	for _, c := range []struct {
		name      string
		level     int
		use       float64
		perSecond float64
		want      int
	}{
		{"idle sends immediately", 0, 0, many, 0},
		{"half busy sends immediately", 0, .5, many, 0},
		{"more than half busy waits 5 ms", 0, .51, many, 1},
		{"unless that gathers too little", 0, .97, few, 0},
		{"always busy waits in any case", 0, .98, few, 1},
		{"and goes on", 1, .6, few, 1},
		{"until it is less busy", 1, .59, few, 0},
		{"less busy still waits 5 ms", 1, .3, many, 1},
		{"half busy still waits 5 ms", 1, .6, many, 1},
		{"nearly always busy waits 10 ms", 1, .81, many, 2},
		{"always busy waits no longer", 2, 1, many, 2},
		{"half busy still waits 10 ms", 2, .5, many, 2},
		{"less busy waits 5 ms again", 2, .39, many, 1},
		{"and so it does if that gathers too little", 2, .5, many/2 - 1, 1},
		{"hardly busy sends immediately again", 1, .19, many, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := nextLevel(c.level, c.use, c.perSecond); got != c.want {
				t.Errorf("level %d at %.0f %% of use and %v frames a second becomes %d, want %d",
					c.level, 100*c.use, c.perSecond, got, c.want)
			}
		})
	}
}

// working is a socket that accepts everything, slowly.
type working struct {
	tap
	cost   time.Duration
	writes []time.Time // when each write began
}

func (s *working) write(w *rawWriter, b []byte) (int, error) {
	s.writes = append(s.writes, time.Now())
	time.Sleep(s.cost)
	return s.tap.write(w, b)
}

func TestBusyFlusherWritesTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		f := b.flusher
		s := &working{tap: tap{room: 1 << 30}}
		p := &peer{id: "con", flusher: f, socket: s}
		f.post(attached{p})
		f.post(authenticated{peer: p, account: alice, sub: everything})
		go f.run()
		synctest.Wait()

		ms := int64(1)
		publish := func() {
			e := created(alice, "BTC")
			e.Position = signal.Position{MS: ms}
			ms++
			b.hub.Publish(testPartition, []signal.Event{e})
		}
		// gaps publishes n events, each a millisecond after the one before, and returns
		// the least and the greatest time between two writes.
		gaps := func(n int) (least, greatest time.Duration) {
			s.writes = nil
			for range n {
				publish()
				time.Sleep(time.Millisecond)
			}
			synctest.Wait()
			least = time.Hour
			for i := 1; i < len(s.writes); i++ {
				gap := s.writes[i].Sub(s.writes[i-1])
				least, greatest = min(least, gap), max(greatest, gap)
			}
			return least, greatest
		}

		s.cost = 300 * time.Microsecond // of a millisecond: less than half
		if least, greatest := gaps(300); least != time.Millisecond || greatest != time.Millisecond {
			t.Errorf("at low load writes are %v to %v apart, want 1ms", least, greatest)
		}
		s.cost = 700 * time.Microsecond
		gaps(300)
		if _, greatest := gaps(300); greatest < 5*time.Millisecond {
			t.Errorf("at high load writes are at most %v apart, want 5ms", greatest)
		}
		s.cost = 0
		gaps(300)
		if least, greatest := gaps(300); least != time.Millisecond || greatest != time.Millisecond {
			t.Errorf("after the load writes are %v to %v apart, want 1ms", least, greatest)
		}

		f.post(halted{})
		<-f.done
		list, _ := s.sent(t)
		if got, want := len(list), int(ms); got != want { // the welcome, and one of each event
			t.Errorf("%d messages, want %d", got, want)
		}
	})
}
