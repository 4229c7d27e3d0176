package dashboard

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestSlowConsumerIsClosedWithoutAffectingOthers(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry)
	s := newService(t, func(o *Options) { o.Metrics = metrics })
	slow := s.dialWith(principalOf(alice), smallDialer(64<<10))
	slow.want("welcome")
	var others []*client
	for range 4 {
		others = append(others, s.welcomed(principalOf(alice)))
	}
	batch := slices.Repeat([]signal.Event{bulky(1000)}, 50)
	for range 30 {
		positions := s.journal.append(batch...)
		for _, c := range others {
			c.wantEvents("signal.new", positions...)
		}
	}
	until(t, "the slow one is closed", func() bool { return closedSlow(s, metrics) })
	// Its earlier messages are complete and in order, followed by the close reason.
	ids := s.journal.matching(alice, newSubscription(defaultChannels, nil), signal.Position{})
	for i := 0; ; i++ {
		e, err := slow.next()
		if err != nil {
			if c, ok := errors.AsType[*websocket.CloseError](err); !ok || c.Code != 4008 {
				t.Fatalf("after %d messages: %v", i, err)
			}
			break
		}
		if e.ID != ids[i] {
			t.Fatalf("message %d is %s, want %s", i, e.ID, ids[i])
		}
	}
}

// closedSlow reports whether a peer was closed as a slow consumer or is being closed.
func closedSlow(s *service, metrics *Metrics) bool {
	if testutil.ToFloat64(metrics.disconnects.WithLabelValues("4008")) > 0 {
		return true
	}
	found := make(chan bool, len(s.hub.flushers))
	for _, f := range s.hub.flushers {
		f.post(inspect(func(f *flusher) {
			for p := range f.lifecycle.peers.All() {
				if p.closed == closeSlow {
					found <- true
					return
				}
			}
			found <- false
		}))
	}
	any := false
	for range s.hub.flushers {
		any = <-found || any
	}
	return any
}

// inspect is an order that runs a function of a test.
type inspect func(f *flusher)

func (o inspect) apply(f *flusher) { o(f) }

// TestPartialWrites checks that clients with tiny buffers that read slowly get whole
// frames, with private messages in between.
func TestPartialWrites(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) {
		o.QueueMessages, o.QueueBytes, o.Heartbeat = 1<<20, 1<<30, 2*time.Millisecond
	})
	const clients, events = 3, 100
	var wg sync.WaitGroup
	for range clients {
		c := s.dialWith(principalOf(alice), smallDialer(32<<10))
		c.want("welcome")
		wg.Go(func() {
			last, beats, pongs := signal.Position{}, 0, 0
			for n := 0; n < events; {
				if n%25 == 0 {
					time.Sleep(50 * time.Millisecond) // lets the buffers fill
				}
				e, err := c.next()
				if err != nil {
					t.Errorf("after %d messages: %v", n, err)
					return
				}
				switch e.Type {
				case "heartbeat":
					beats++
				case "pong":
					pongs++
				default:
					p, _ := signal.ParsePosition(e.ID)
					if p.Compare(last) <= 0 {
						t.Errorf("%s after %s", p, last)
					}
					last, n = p, n+1
				}
				if n == events/2 && pongs == 0 {
					c.send(`{"action":"ping"}`)
					pongs++
				}
			}
			if beats == 0 {
				t.Error("no heartbeat came in between")
			}
		})
	}
	r := rand.New(rand.NewPCG(9, 9))
	for range events {
		s.journal.append(bulky(r.IntN(30_000)))
	}
	wg.Wait()
}

func TestDrain(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	a, b, c := s.welcomed(principalOf(alice)), s.welcomed(principalOf(bob)), s.dial(nil)
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.hub.Drain(ctx) }()
	for _, c := range []*client{a, b, c} {
		c.wantClose(closeGoingAway)
		c.ws.Close()
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.dial(principalOf(alice)).wantClose(closeGoingAway)
	s.journal.append(created(alice, "BTC"))
}

func TestDrainDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	s.welcomed(principalOf(alice)) // does not close
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.hub.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("drain: %v", err)
	}
}

func TestGapSendsConnectionsAwayToResume(t *testing.T) {
	t.Parallel()
	s, c := newClient(t, nil)
	seen := s.journal.append(created(alice, "BTC"))[0]
	c.want("signal.new")
	s.hub.Gap(testPartition + 1)
	c.wantNothing()
	missed := s.journal.recordPast(created(alice, "BTC"), created(alice, "ETH"))
	s.hub.Gap(testPartition)
	c.wantClose(closeGoingAway)
	later := s.journal.append(created(alice, "SOL"))
	c = s.welcomed(principalOf(alice))
	c.subscribe(after1(seen), `{"replayed":3,"complete":true}`, append(missed, later...)...)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	metrics := NewMetrics(prometheus.NewRegistry())
	s := newUnstarted(t, func(o *Options) { o.Metrics = metrics })
	s.server.StartTLS()
	d := &websocket.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	slow := &websocket.Dialer{TLSClientConfig: d.TLSClientConfig, NetDial: smallDialer(2 << 10).NetDial}
	c, never := s.dialWith(principalOf(alice), d), s.dialWith(principalOf(alice), slow)
	c.want("welcome")
	never.want("welcome")
	last := signal.Position{}
	for range 40 {
		for range 50 {
			s.journal.append(bulky(1000))
		}
		for range 50 {
			p, _ := signal.ParsePosition(c.want("signal.new").ID)
			if p.Compare(last) <= 0 {
				t.Fatalf("%s after %s", p, last)
			}
			last = p
		}
	}
	c.wantNothing()
	// Whether it gets the close frame depends on its kernel: see blockingSocket.widen.
	until(t, "the slow one is closed", func() bool { return closedSlow(s, metrics) })
	never.ws.Close()
	if err := c.ws.WriteControl(websocket.CloseMessage, nil, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	c.wantClose(closeBye)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	s, c := newClient(t, func(o *Options) { o.Metrics = m })
	p := s.journal.append(created(alice, "BTC"), created(alice, "ETH"))
	c.want("signal.new")
	c.want("signal.new")
	c.ask(`{"action":"subscribe","channels":["signal.new"],"last_event_id":"`+p[0].String()+`"}`, "subscribed")
	if got := testutil.ToFloat64(m.connections); got != 1 {
		t.Errorf("%v connections", got)
	}
	for c, want := range map[channel]float64{signalNew: 1, agentStatus: 0} {
		if got := testutil.ToFloat64(m.subscriptions[c]); got != want {
			t.Errorf("%v subscriptions to %s, want %v", got, c, want)
		}
	}
	c.ws.Close()
	d := s.dial(nil)
	d.wantCloseAfter(`{"action":"auth","api_key":"wrong"}`, closeUnauth)
	d.ws.Close()
	until(t, "both have ended", func() bool { return testutil.ToFloat64(m.connections) == 0 })
	want := strings.NewReader(`
# HELP agentsignal_ws_connects_total Accepted connections of the stream by the result of their authentication.
# TYPE agentsignal_ws_connects_total counter
agentsignal_ws_connects_total{result="abandoned"} 0
agentsignal_ws_connects_total{result="going_away"} 0
agentsignal_ws_connects_total{result="ok"} 1
agentsignal_ws_connects_total{result="too_many_connections"} 0
agentsignal_ws_connects_total{result="unauthenticated"} 1
# HELP agentsignal_ws_messages_sent_total Messages written to connections of the stream by channel, without replies.
# TYPE agentsignal_ws_messages_sent_total counter
agentsignal_ws_messages_sent_total{channel="agent.status"} 0
agentsignal_ws_messages_sent_total{channel="heartbeat"} 0
agentsignal_ws_messages_sent_total{channel="market.price"} 0
agentsignal_ws_messages_sent_total{channel="signal.closed"} 0
agentsignal_ws_messages_sent_total{channel="signal.new"} 2
agentsignal_ws_messages_sent_total{channel="signal.updated"} 0
agentsignal_ws_messages_sent_total{channel="system.notification"} 0
# HELP agentsignal_ws_resumes_total Subscriptions with last_event_id by whether the gap was filled.
# TYPE agentsignal_ws_resumes_total counter
agentsignal_ws_resumes_total{result="complete"} 1
agentsignal_ws_resumes_total{result="incomplete"} 0
# HELP agentsignal_ws_subscriptions Connections of the stream that are subscribed to a channel.
# TYPE agentsignal_ws_subscriptions gauge
agentsignal_ws_subscriptions{channel="agent.status"} 0
agentsignal_ws_subscriptions{channel="market.price"} 0
agentsignal_ws_subscriptions{channel="signal.closed"} 0
agentsignal_ws_subscriptions{channel="signal.new"} 0
agentsignal_ws_subscriptions{channel="signal.updated"} 0
agentsignal_ws_subscriptions{channel="system.notification"} 0
`)
	compared := []string{
		"agentsignal_ws_connects_total", "agentsignal_ws_messages_sent_total",
		"agentsignal_ws_resumes_total", "agentsignal_ws_subscriptions",
	}
	if err := testutil.GatherAndCompare(registry, want, compared...); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(m.deliveryLag); n != 1 {
		t.Error("no lag was measured")
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}
