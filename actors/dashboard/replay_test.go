package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

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
	past := s.journal.record(created(alice, "BTC"), created(alice, "ETH"), created(alice, "BTC"), created(alice, "ETH"))
	s.journal.skip() // the node starts
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
		c.send(`{"action":"subscribe","filters":{"assets":["ETH"]}}`)
		c.want("subscribed")
		p = append(p, s.journal.append(created(alice, "BTC"), created(alice, "ETH"))...)
		c.want("signal.new")
		c.subscribe(after1(p[0]), `{"replayed":3,"complete":true}`, p[1], p[2], p[4])
		p = append(p, s.journal.append(created(alice, "BTC"))...)
		if e := c.want("signal.new"); e.ID != p[6].String() {
			t.Errorf("after the replay: got %s, want %s", e.ID, p[6])
		}
	}
}

// TestReplayAtTheClientsPace checks that a client that slowly reads a long replay, while
// events are published, is not closed.
func TestReplayAtTheClientsPace(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.QueueMessages, o.QueueBytes = 10, 10_000 })
	big := func() signal.Event {
		e := created(alice, "BTC")
		e.Data = fmt.Appendf(nil, `{"asset":"BTC","text":%q}`, strings.Repeat("x", 2000))
		return e
	}
	var all []signal.Position
	for range 1000 {
		all = append(all, s.journal.append(big())...)
	}
	c := s.dialWith(principalOf(alice), smallDialer(64<<10))
	c.want("welcome")
	c.send(`{"action":"subscribe","channels":["signal.new"],` + after1(all[0]) + `}`)
	c.want("subscribed")
	until(t, "the replay is under way", func() bool { return refusedPeers(s.hub) == 1 })
	for range 200 {
		all = append(all, s.journal.append(big())...)
	}
	c.send(`{"action":"unsubscribe","ref":"waits"}`)
	for _, p := range all[1:] {
		if e := c.want("signal.new"); e.ID != p.String() {
			t.Fatalf("got %s, want %s", e.ID, p)
		}
	}
	c.wantData("unsubscribed", `{"ref":"waits","channels":[]}`)
}

// TestPingDuringReplay expects an answer between two messages of a replay.
func TestPingDuringReplay(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	e := created(alice, "BTC")
	e.Data = fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", 3000))
	first := s.journal.append(e)[0]
	for range 1000 {
		s.journal.append(e)
	}
	c := s.dialWith(principalOf(alice), smallDialer(64<<10))
	c.want("welcome")
	c.send(`{"action":"subscribe",` + after1(first) + `}`)
	c.want("subscribed")
	until(t, "the replay is under way", func() bool { return refusedPeers(s.hub) == 1 })
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
	e := created(alice, "BTC")
	e.Data = fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", 5000))
	var all []signal.Position
	for range 300 {
		all = append(all, s.journal.append(e)...)
	}
	c := s.dialWith(principalOf(alice), smallDialer(64<<10))
	c.want("welcome")
	c.send(`{"action":"subscribe",` + after1(all[0]) + `}`)
	c.want("subscribed")
	until(t, "the replay is under way", func() bool { return refusedPeers(s.hub) == 1 })
	for range 500 {
		s.journal.append(e)
	}
	for _, p := range all[1:] {
		if e := c.want("signal.new"); e.ID != p.String() {
			t.Fatalf("got %s, want %s", e.ID, p)
		}
	}
	c.wantClose(closeSlow)
}

// refusedPeers counts the connections whose kernel buffer is full.
func refusedPeers(h *Hub) int {
	found := make(chan int, len(h.flushers))
	for _, f := range h.flushers {
		f.post(inspect(func(f *flusher) {
			n := 0
			for p := range f.peers.All() {
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

func TestResumeFailsOpenWhenTheLogCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	p := s.journal.record(created(alice, "BTC"))[0]
	s.journal.skip()
	s.journal.fail = errors.New("out of order")
	c := s.welcomed(principalOf(alice))
	c.subscribe(after1(p), `{"replayed":0,"complete":false}`)
	s.journal.append(created(alice, "BTC"))
	c.want("signal.new")
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
	c.send(`{"action":"auth","token":"x"}`)
	c.wantClose(closeInternal)
	other.wantNothing()
}

// TestManyComeAndGo starts and ends connections from many goroutines, in every
// state that they can be in.
func TestManyComeAndGo(t *testing.T) {
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
				for k, text := range []string{`{"action":"auth","api_key":"alice"}`, `{"action":"subscribe",` + after1(p) + `}`, `{"action":"unsubscribe"}`, `{"action":"ping"}`} {
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
	until(t, "all are gone", func() bool {
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		return s.hub.open == 0 && len(s.hub.accounts) == 0
	})
}
