package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// subscribe sends a subscribe with these members and expects its reply with the result
// of the resume, then exactly the events at these positions.
func (c *client) subscribe(members, resumed string, want ...signal.Position) {
	c.tb.Helper()
	c.send(`{"action":"subscribe",` + members + `}`)
	e, err := c.next()
	for err == nil && e.Type != "subscribed" {
		e, err = c.next()
	}
	if err != nil || !strings.HasSuffix(string(e.Data), `"resumed":`+resumed+`}`) {
		c.tb.Fatalf("reply to %s: %s, %v", members, e.Data, err)
	}
	for _, p := range want {
		if e, err := c.next(); err != nil || e.ID != p.String() {
			c.tb.Fatalf("after %s: got %s %s, %v, want %s", members, e.Type, e.ID, err, p)
		}
	}
	c.wantNothing()
}

func after1(p signal.Position) string { return `"last_event_id":"` + p.String() + `"` }

func TestReplayLeavesOutWhatWasSent(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.MessageRate = 1_000_000 })
	past := s.journal.recordPast( // the node starts
		created(alice, "BTC"), created(alice, "ETH"), created(alice, "BTC"), created(alice, "ETH"))
	c := s.welcomed(principalOf(alice))
	c.subscribe(after1(past[0])+`,"filters":{"assets":["BTC"]}`, `{"replayed":1,"complete":true}`, past[2])
	c.subscribe(after1(past[0])+`,"filters":{"assets":["BTC"]}`, `{"replayed":0,"complete":true}`)
	c.subscribe(after1(past[0]), `{"replayed":2,"complete":true}`, past[1], past[3])
	c.subscribe(after1(past[0]), `{"replayed":0,"complete":true}`)

	live := s.journal.append(created(alice, "BTC"), created(alice, "SOL"))
	c.want("signal.new")
	c.want("signal.new")
	c.subscribe(after1(past[0]), `{"replayed":0,"complete":true}`)
	c.subscribe(after1(live[0])+`,"channels":[]`, `{"replayed":0,"complete":true}`)
	unseen := s.journal.append(created(alice, "BTC"))
	c.subscribe(after1(past[2]), `{"replayed":1,"complete":true}`, unseen[0])

	// Without last_event_id no past events come, and they do not count as sent later.
	d := s.welcomed(principalOf(alice))
	d.subscribe(`"channels":["signal.new"]`, `null`)
	d.subscribe(after1(past[3]), `{"replayed":3,"complete":true}`, live[0], live[1], unseen[0])
}

func TestReplayAfterVeryManySubscriptions(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.MessageRate = 1_000_000 })
	first := s.journal.append(created(alice, "BTC"))[0]
	c := s.welcomed(principalOf(alice))
	var last signal.Position
	for i := range maxSpans + 2 {
		c.subscribe(fmt.Sprintf(`"filters":{"assets":["A%d"]}`, i), `null`)
		last = s.journal.append(created(alice, fmt.Sprintf("A%d", i)))[0]
		c.want("signal.new")
	}
	// The events sent under the first of them are no longer known.
	c.subscribe(after1(first), `{"replayed":0,"complete":false}`)
	c.subscribe(after1(last), `{"replayed":0,"complete":true}`)
}

// TestResumeAfterLaterEvents has a connection that got later events, by the default
// subscription and by its own, before it asks for missed ones: those come after the
// reply, each once, followed by the live ones.
func TestResumeAfterLaterEvents(t *testing.T) {
	t.Parallel()
	for _, ring := range []int{65_536, 2} { // from memory, and from the log
		s := newService(t, func(o *Options) { o.RingFrames = ring })
		p := s.journal.append(created(alice, "BTC"), created(alice, "ETH"), created(alice, "BTC"))
		c := s.welcomed(principalOf(alice))
		p = append(p, s.journal.append(created(alice, "BTC"))...)
		c.want("signal.new")
		c.ask(`{"action":"subscribe","filters":{"assets":["ETH"]}}`, "subscribed")
		p = append(p, s.journal.append(created(alice, "BTC"), created(alice, "ETH"))...)
		c.want("signal.new")
		c.subscribe(after1(p[0]), `{"replayed":3,"complete":true}`, p[1], p[2], p[4])
		p = append(p, s.journal.append(created(alice, "BTC"))...)
		c.wantEvents("signal.new", p[6])
	}
}

// replaying returns a client with a small buffer, whose subscribe with these members has
// been answered and whose replay waits for it to read.
func (s *service) replaying(members string) *client {
	s.tb.Helper()
	c := s.dialWith(principalOf(alice), smallDialer(64<<10))
	c.want("welcome")
	c.ask(`{"action":"subscribe",`+members+`}`, "subscribed")
	until(s.tb, "the replay has begun", func() bool { return refusedPeers(s.hub) == 1 })
	return c
}

// TestReplayAtTheClientsPace checks that a client that slowly reads a long replay, while
// events are published, is not closed.
func TestReplayAtTheClientsPace(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.QueueMessages, o.QueueBytes = 10, 10_000 })
	all := s.journal.append(slices.Repeat([]signal.Event{bulky(2000)}, 1000)...)
	c := s.replaying(`"channels":["signal.new"],` + after1(all[0]))
	for range 200 {
		all = append(all, s.journal.append(bulky(2000))...)
	}
	c.send(`{"action":"unsubscribe","ref":"waits"}`)
	c.wantEvents("signal.new", all[1:]...)
	c.wantData("unsubscribed", `{"ref":"waits","channels":[]}`)
}

// TestPingDuringReplay expects an answer between two messages of a replay.
func TestPingDuringReplay(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	all := s.journal.append(slices.Repeat([]signal.Event{bulky(3000)}, 1001)...)
	c := s.replaying(after1(all[0]))
	c.send(`{"action":"ping"}`)
	for n := 0; ; n++ {
		e, err := c.next()
		if err != nil || n == 1000 {
			t.Fatalf("after %d messages: %s, %v", n, e.Type, err)
		}
		if e.Type == "pong" {
			break
		}
	}
}

// TestReplayThatIsNeverRead checks that a client that does not read its replay until the
// ring has dropped the following events is closed.
func TestReplayThatIsNeverRead(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.RingFrames = 400 })
	all := s.journal.append(slices.Repeat([]signal.Event{bulky(5000)}, 300)...)
	c := s.replaying(after1(all[0]))
	for range 500 {
		s.journal.append(bulky(5000))
	}
	c.wantEvents("signal.new", all[1:]...)
	c.wantClose(closeSlow)
}

// refusedPeers counts the connections whose kernel buffer is full.
func refusedPeers(h *Hub) int {
	found := make(chan int, len(h.flushers))
	for _, f := range h.flushers {
		f.post(inspect(func(f *flusher) {
			n := 0
			for p := range f.lifecycle.peers.All() {
				if p.refused {
					n++
				}
			}
			found <- n
		}))
	}
	n := 0
	for range h.flushers {
		n += <-found
	}
	return n
}

// What is missing is not known then, so the client must connect again.
func TestResumeEndsWhenTheLogCannotBeRead(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	s := newService(t, nil)
	p := s.journal.recordPast(created(alice, "BTC"))[0]
	s.journal.fail = errors.New("out of order")
	c := s.welcomed(principalOf(alice))
	c.wantCloseAfter(`{"action":"subscribe",`+after1(p)+`}`, closeInternal)
}

// panicking is an Authenticator that panics.
type panicking struct{}

func (panicking) Authenticate(context.Context, string) (signal.Principal, error) {
	panic("authenticator out of order")
}

func TestFailedActorClosesItsConnection(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.Authenticator = panicking{} })
	other := s.welcomed(principalOf(alice))
	c := s.welcomed(principalOf(alice))
	c.wantCloseAfter(`{"action":"auth","token":"x"}`, closeInternal)
	other.wantNothing()
}

// TestManyConnectAndDisconnect starts and ends connections from many goroutines, in
// every state that they can be in. Nothing is left of them.
func TestManyConnectAndDisconnect(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	p := s.journal.append(created(alice, "BTC"))[0]
	done := make(chan struct{})
	for i := range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for j := range 20 {
				ws, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.server.URL, "http"), nil)
				if err != nil {
					t.Error(err)
					return
				}
				for k, text := range []string{
					`{"action":"auth","api_key":"alice"}`, `{"action":"subscribe",` + after1(p) + `}`,
					`{"action":"unsubscribe"}`, `{"action":"ping"}`,
				} {
					if k > (i+j)%5 {
						break
					}
					_ = ws.WriteMessage(websocket.TextMessage, []byte(text))
				}
				ws.Close()
			}
		}()
	}
	for range 8 {
		s.journal.append(created(alice, "BTC"))
		<-done
	}
	until(t, "all have ended", func() bool {
		s.hub.publishing.Lock()
		defer s.hub.publishing.Unlock()
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		return s.hub.open == 0 && s.hub.listened[alice].connections == 0
	})
	until(t, "nothing is left of them", func() bool { return left(t, s) == "" })
}

// left returns what is left of connections, or nothing.
func left(t *testing.T, s *service) string {
	t.Helper()
	var parts []string
	note := func(what string, n int) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	note("connections without an account", int(s.unsettled.Load()))
	for _, f := range s.hub.flushers {
		done := make(chan struct{})
		f.post(inspect(func(f *flusher) {
			defer close(done)
			note("peers", f.lifecycle.peers.Len())
			note("accounts", len(f.audiences.of))
			note("peers to write to", len(f.writer.ready)+len(f.writer.waiting)+len(f.audiences.awaitingPrices))
			f.poller.mu.Lock()
			defer f.poller.mu.Unlock()
			note("places", len(f.poller.places)-len(f.poller.free))
			for _, at := range f.poller.places {
				if at != nil {
					note("sockets", 1)
				}
			}
		}))
		<-done
	}
	families, err := s.actors.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			if family.GetName() == "agentsignal_actor_running" && m.Label[0].GetValue() == string(engine.Connection) {
				note("actors", int(m.Gauge.GetValue()))
			}
		}
	}
	return strings.Join(parts, ", ")
}
