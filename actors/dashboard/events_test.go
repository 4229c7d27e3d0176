package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// eventsPath is where the service of tests has Server-Sent Events.
const eventsPath = "/events"

const eventsHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

func (s *service) serveEvents(w http.ResponseWriter, p *signal.Principal, first *Subscription) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		s.tb.Error(err)
		return
	}
	leave := s.hub.ServeEvents(conn, []byte(eventsHead), p, first)
	if s.leaving != nil {
		s.leaving(leave)
	}
}

// eventReader reads Server-Sent Events.
type eventReader struct {
	conn  net.Conn
	lines *bufio.Reader
	id    string // of the last event
}

// next returns the data of the next event, or the error that ended the connection.
func (r *eventReader) next() ([]byte, error) {
	r.conn.SetReadDeadline(time.Now().Add(testTimeout))
	var event strings.Builder
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if event.WriteString(line); line != "\n" {
			continue
		}
		list, _ := readEvents(event.String())
		event.Reset()
		if len(list) == 0 {
			continue // it had no data
		}
		if r.id = list[0].id; list[0].name != "close" {
			return []byte(list[0].data), nil
		}
		var end struct{ Data closeData }
		if err := json.Unmarshal([]byte(list[0].data), &end); err != nil {
			return nil, err
		}
		if _, err := r.lines.ReadByte(); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("after the end: %w", err)
		}
		return nil, &websocket.CloseError{Code: end.Data.Code, Text: end.Data.Reason}
	}
}

// events connects for Server-Sent Events.
func (s *service) events(p *signal.Principal, query string) *client {
	s.tb.Helper()
	return s.eventsWith(p, query, new(net.Dialer))
}

func (s *service) eventsWith(p *signal.Principal, query string, d interface {
	Dial(network, address string) (net.Conn, error)
}) *client {
	s.tb.Helper()
	s.mu.Lock()
	s.principal = p
	s.mu.Unlock()
	conn, err := d.Dial("tcp", s.server.Listener.Addr().String())
	if err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET %s?%s HTTP/1.1\r\nHost: localhost\r\n\r\n", eventsPath, query)
	c := &client{tb: s.tb, events: &eventReader{conn: conn, lines: bufio.NewReader(conn)}}
	for range 3 { // lines of the head
		if _, err := c.events.lines.ReadString('\n'); err != nil {
			s.tb.Fatal(err)
		}
	}
	return c
}

// welcomedByEvents connects and reads the welcome.
func (s *service) welcomedByEvents(p *signal.Principal) *client {
	s.tb.Helper()
	c := s.events(p, "")
	c.want("welcome")
	return c
}

// TestBothTransportsSendTheSame: the events of two connections with equal subscriptions, byte for byte.
func TestBothTransportsSendTheSame(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	const query = "channels=signal.new,signal.closed,agent.status,system.notification&assets=BTC"
	first := s.journal.append(created(alice, "BTC"), created(alice, "BTC"))[0]
	resume := "&last_event_id=" + first.String()
	a, b := s.begun(query+resume), s.events(principalOf(alice), query+resume)
	for _, c := range []*client{a, b} {
		c.wantPart(c.want("subscribed"), `"resumed":{"replayed":1,"complete":true}`)
		c.want("welcome")
	}
	s.journal.append(created(alice, "ETH"), bulky(100_000), created(alice, "btc"), statusEvent(),
		signal.Event{Account: alice, Type: signal.SignalClosed, Asset: "BTC", Data: []byte("{\"a\":\n1}\n")},
		signal.Event{Account: alice, Type: signal.SystemNotification, Data: []byte(`{"message":"Ü","severity":"info"}`)})
	for range 6 {
		_, want, err := a.read()
		if err != nil {
			t.Fatal(err)
		}
		_, got, err := b.read()
		if err != nil || !bytes.Equal(want, got) {
			t.Errorf("%v %.300s, by WebSocket %.300s", err, got, want)
		}
		if !strings.Contains(string(got), `"id":"`+b.events.id+`"`) {
			t.Errorf("the event %.300s has the id %s", got, b.events.id)
		}
	}
}

// TestEventStreamsEnd by what ends WebSockets, each with its reason.
func TestEventStreamsEnd(t *testing.T) {
	t.Parallel()
	metrics := NewMetrics(prometheus.NewRegistry())
	s := newService(t, func(o *Options) { o.MaxConnections, o.Metrics = 8, metrics })
	key, soon := principalOf(alice), principalOf(alice)
	soon.ExpiresAt = time.Now().Add(400 * time.Millisecond)

	s.events(&signal.Principal{Account: alice, ExpiresAt: time.Now().Add(-time.Second)}, "").wantClose(closeUnauth)
	s.events(soon, "").wantClose(closeUnauth)
	revoked := s.welcomedByEvents(key)
	s.journal.append(signal.Event{Account: alice, Type: signal.KeyRevoked, Subject: string(key.Key)})
	revoked.wantClose(closeUnauth)
	s.events(key, "").wantClose(closeUnauth)

	talking, silent := s.welcomedByEvents(principalOf(alice)), s.welcomedByEvents(principalOf(alice))
	talking.events.conn.Write(make([]byte, maxDiscarded))
	silent.events.conn.(*net.TCPConn).CloseWrite() // it has left, as far as the service knows
	if _, _, err := silent.read(); !errors.Is(err, io.EOF) {
		t.Errorf("a client that has left: %v", err)
	}
	talking.events.conn.Write([]byte("x"))
	talking.wantClose(closeProtocol)

	var bobs *client
	for range 8 {
		bobs = s.welcomedByEvents(principalOf(bob))
	}
	s.events(principalOf(bob), "").wantClose(closeTooManyConns)
	events, all := testutil.ToFloat64(metrics.eventStreams), testutil.ToFloat64(metrics.connections)
	if events < 8 || events > all {
		t.Errorf("%v of %v connections are counted", events, all)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	if err := s.hub.Drain(ctx); err != nil {
		t.Error(err)
	}
	bobs.wantClose(closeGoingAway)
	s.events(principalOf(bob), "").wantClose(closeGoingAway) // it comes during the drain
	if events, all := testutil.ToFloat64(metrics.eventStreams), testutil.ToFloat64(metrics.connections); events != 0 || all != 0 {
		t.Errorf("%v of %v connections are still counted", events, all)
	}
	if n := testutil.ToFloat64(metrics.disconnects.WithLabelValues("1000")); n != 1 {
		t.Errorf("%v clients are counted that have left by themselves", n)
	}
}

// TestLeave ends one connection as a shutdown does.
func TestLeave(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.hub.draining = true
	client, conn := net.Pipe()
	read := make(chan []byte)
	go func() {
		text, _ := io.ReadAll(client)
		read <- text
	}()
	b.hub.ServeEvents(conn, []byte("head\n\n"), principalOf(alice), nil)() // it has no flusher
	text := string(<-read)
	if events, rest := readEvents(text); len(events) != 1 || events[0].name != "close" || rest != "" ||
		!strings.HasPrefix(text, "head\n\n") {
		t.Errorf("during a drain: %q", text)
	}

	s := newService(t, nil)
	leave := make(chan func(), 1)
	s.leaving = func(f func()) { leave <- f }
	c := s.welcomedByEvents(principalOf(alice))
	(<-leave)()
	c.wantClose(closeGoingAway)
}

// TestALaggingClientOfEventsLearnsWhy: its events are complete and in order until then.
func TestALaggingClientOfEventsLearnsWhy(t *testing.T) {
	t.Parallel()
	metrics := NewMetrics(prometheus.NewRegistry())
	s := newService(t, func(o *Options) { o.Metrics = metrics })
	slow := s.eventsWith(principalOf(alice), "", dialFunc(smallDialer(64<<10).NetDial))
	slow.want("welcome")
	other := s.welcomedByEvents(principalOf(alice))
	for !closedSlow(s, metrics) {
		positions := s.journal.append(bulky(1000), bulky(1000), bulky(1000), bulky(1000), bulky(1000))
		other.wantEvents("signal.new", positions...)
	}
	ids := s.journal.matching(alice, newSubscription(defaultChannels, nil), signal.Position{})
	for i := 0; ; i++ {
		e, err := slow.next()
		if err != nil {
			if c, ok := errors.AsType[*websocket.CloseError](err); !ok || c.Code != closeSlow.code {
				t.Fatalf("after %d messages: %v", i, err)
			}
			return
		}
		if e.ID != ids[i] {
			t.Fatalf("message %d is %s, want %s", i, e.ID, ids[i])
		}
	}
}

// dialFunc is a dialer.
type dialFunc func(network, address string) (net.Conn, error)

func (d dialFunc) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// TestASilentClientOfEventsIsKept: it has nothing to say, and gets no pings.
func TestASilentClientOfEventsIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		p, s := b.attachBy(eventStream, "", 1<<20)
		for range 20 {
			b.settle()
			time.Sleep(b.hub.o.Heartbeat)
		}
		list, code := s.sent(t)
		var got []string
		for _, e := range list {
			got = append(got, e.Type)
		}
		want := append([]string{"welcome"}, strings.Fields(strings.Repeat("heartbeat ", 19))...)
		if d := cmp.Diff(want, got); d != "" || code != 0 || p.ended() {
			t.Errorf("closed with %d: %s", code, d)
		}
	})
}
