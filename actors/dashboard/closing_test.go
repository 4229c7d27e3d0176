package dashboard

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestASlowClientThatComesBackLearnsWhyItIsClosed, as long as the kernel keeps what it has not read; others
// that do not read, and all while the hub drains, are given less time.
func TestASlowClientThatComesBackLearnsWhyItIsClosed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		why    closing
		full   time.Duration // until the socket takes bytes again
		unread time.Duration // from then until the client has read and closes
		drains bool
		code   int
		closed bool // before the client has read all
	}{
		"soon":                         {closeSlow, time.Second, time.Second, false, 4008, false},
		"late":                         {closeSlow, userTimeout - time.Second, userTimeout - time.Second, false, 4008, false},
		"too late":                     {closeSlow, userTimeout + time.Second, 0, false, 0, true},
		"unread for too long":          {closeSlow, 0, userTimeout + time.Second, false, 4008, true},
		"drained":                      {closeSlow, lingerTime + time.Second, 0, true, 0, true},
		"closed for another reason":    {closeErrors, closingTime - time.Second, lingerTime - time.Second, false, 4400, false},
		"another reason, and full":     {closeErrors, closingTime + time.Second, 0, false, 0, true},
		"another reason, and not read": {closeErrors, 0, lingerTime + time.Second, false, 4400, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				p, s := b.attachWith("", 1<<20)
				b.settle()
				s.space = 10 // of a message
				b.journal.append(bulky(1000))
				b.pass()
				s.space = -10_000 // widening is not enough
				b.flusher.post(closeConn{p, test.why})
				b.pass()
				if test.drains {
					b.flusher.post(drained{})
					b.pass()
				}
				time.Sleep(test.full)
				b.pass()
				s.space = 1 << 20
				b.pass()
				time.Sleep(test.unread)
				b.pass()
				code := 0
				if test.code != 0 {
					_, code = s.sent(t)
				}
				if code != test.code || s.closed != test.closed {
					t.Errorf("closed with %d, before all was read: %v", code, s.closed)
				}
			})
		})
	}
}
