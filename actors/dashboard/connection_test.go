package dashboard

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestWelcomeListsTheAllowedChannels(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	expires := time.Now().Add(time.Hour)
	tests := []struct {
		name   string
		scopes signal.ScopeSet
		want   []string
	}{
		{"all scopes", signal.AllScopes, []string{"signal.new", "agent.status", "system.notification"}},
		{"signals only", signal.ScopesOf(signal.SignalsRead), []string{"signal.new", "system.notification"}},
		{"agents only", signal.ScopesOf(signal.AgentsRead), []string{"agent.status", "system.notification"}},
		{"no scope of the stream", signal.ScopesOf(signal.WebhooksManage), []string{"system.notification"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := s.dial(&signal.Principal{Account: alice, Scopes: test.scopes, ExpiresAt: expires})
			var got welcomeData
			if err := json.Unmarshal(c.want("welcome").Data, &got); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, got.Channels); d != "" {
				t.Error(d)
			}
			if !strings.HasPrefix(got.ConnectionID, "con_") || got.HeartbeatSeconds != 30 {
				t.Errorf("welcome: %+v", got)
			}
			if got.ExpiresAt == nil || *got.ExpiresAt != expires.UTC().Format(signal.TimeLayout) {
				t.Errorf("expires_at: %v", got.ExpiresAt)
			}
		})
	}
	c := s.dial(principalOf(alice))
	c.wantPart(c.want("welcome"), `"expires_at":null`)
}

// unfiltered are the last members of a reply to subscribe without filters.
const unfiltered = `"filters":{"assets":[]},"denied":[],"resumed":null}`

func TestFirstMessageAuthenticates(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	s.tokens.known["ask_a"] = *principalOf(alice)
	s.tokens.gate = make(chan struct{})
	for _, member := range []string{"api_key", "token"} {
		c := s.dial(nil)
		c.wantReply(`{"action":"subscribe","ref":"r1"}`, "error", `{"ref":"r1","code":"auth_required",`+
			`"message":"the first message must be {\"action\": \"auth\", \"api_key\": \"…\"}"}`)
		// Messages sent right after the auth are handled after it, in order.
		c.send(`{"action":"auth","` + member + `":"ask_a"}`)
		c.send(`{"action":"subscribe","channels":["signal.new"],"ref":"r2"}`)
		c.send(`{"action":"ping","ref":"r3"}`)
		s.tokens.gate <- struct{}{}
		c.want("welcome")
		c.wantData("subscribed", `{"ref":"r2","channels":["signal.new"],`+unfiltered)
		c.wantData("pong", `{"ref":"r3"}`)
	}
}

func TestConnectionsThatDoNotAuthenticateAreClosed(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.AuthTimeout = 50 * time.Millisecond })
	c := s.dial(nil)
	c.wantClose(closeUnauth)
	c = s.dial(nil)
	c.wantCloseAfter(`{"action":"auth","api_key":"ask_wrong"}`, closeUnauth)
	s.tokens.fail(signal.Unavailable(nil))
	c = s.dial(nil)
	c.wantCloseAfter(`{"action":"auth","api_key":"ask_a"}`, closeInternal)
	c = s.dial(&signal.Principal{Account: alice, ExpiresAt: time.Now().Add(-time.Second)})
	c.wantClose(closeUnauth)
	until(t, "all are settled", func() bool { return s.unsettled.Load() == 0 })
}

func TestAConnectionIsSettledWhenItIsAuthenticated(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	s.tokens.known["ask_a"] = *principalOf(alice)
	c, closed := s.dial(nil), s.dial(nil)
	c.ask(`{"action":"ping"}`, "error")
	until(t, "neither is settled", func() bool { return s.unsettled.Load() == 2 })
	c.ask(`{"action":"auth","api_key":"ask_a"}`, "welcome")
	until(t, "the authenticated one is settled", func() bool { return s.unsettled.Load() == 1 })
	closed.ws.Close()
	until(t, "the closed one is settled", func() bool { return s.unsettled.Load() == 0 })
	if err := s.hub.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.dial(nil).wantClose(closeGoingAway)
	until(t, "one accepted after a drain is settled", func() bool { return s.unsettled.Load() == 0 })
}

func TestExpiryClosesUnlessExtended(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	soon := *principalOf(alice)
	soon.ExpiresAt = time.Now().Add(400 * time.Millisecond)
	fresh := *principalOf(alice)
	fresh.ExpiresAt = time.Now().Add(time.Hour)
	other := *principalOf(bob)
	s.tokens.known["fresh"], s.tokens.known["other"], s.tokens.known["soon"] = fresh, other, soon

	extended, expiring, shortened := s.welcomed(&soon), s.welcomed(&soon), s.welcomed(&fresh)
	crossing, bad := s.welcomed(principalOf(alice)), s.welcomed(principalOf(alice))
	shortened.send(`{"action":"auth","token":"soon"}`)
	extended.ask(`{"action":"subscribe","channels":["signal.new"],"filters":{"assets":["BTC"]}}`, "subscribed")
	extended.send(`{"action":"auth","token":"fresh"}`)
	var w welcomeData
	err := json.Unmarshal(extended.want("welcome").Data, &w)
	if err != nil || w.ExpiresAt == nil || *w.ExpiresAt != fresh.ExpiresAt.UTC().Format(signal.TimeLayout) {
		t.Errorf("second welcome: %+v, %v", w, err)
	}
	if d := cmp.Diff([]string{"signal.new"}, w.Channels); d != "" {
		t.Error("the subscription does not continue:", d)
	}
	crossing.wantCloseAfter(`{"action":"auth","token":"other"}`, closeUnauth)
	bad.wantCloseAfter(`{"action":"auth","token":"wrong"}`, closeUnauth)
	expiring.wantClose(closeUnauth)
	shortened.wantClose(closeUnauth)
	// The extended connection keeps its filter.
	s.journal.append(created(alice, "ETH"), created(alice, "BTC"))
	extended.wantPart(extended.want("signal.new"), `"BTC"`)
}

func TestFreshCredentialWithFewerScopesNarrowsTheSubscription(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	s.tokens.known["less"] = signal.Principal{Account: alice, Scopes: signal.ScopesOf(signal.AgentsRead)}
	c := s.welcomed(principalOf(alice))
	welcome := c.ask(`{"action":"auth","token":"less"}`, "welcome")
	c.wantPart(welcome, `"channels":["agent.status","system.notification"]`)
	s.journal.append(created(alice, "BTC"))
	c.wantNothing()
}

func TestRepliesToMessages(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	signals := principalOf(alice)
	signals.Scopes = signal.ScopesOf(signal.SignalsRead)
	tests := []struct{ name, send, kind, data string }{
		{"subscribe", `{"action":"subscribe","channels":["system.notification","signal.new"],"ref":"a"}`,
			"subscribed", `{"ref":"a","channels":["system.notification","signal.new"],` + unfiltered},
		{"absent channels are all", `{"action":"subscribe","channels":null}`,
			"subscribed", `{"ref":null,"channels":["signal.new","system.notification"],` + unfiltered},
		{"empty channels are none", `{"action":"subscribe","channels":[]}`,
			"subscribed", `{"ref":null,"channels":[],` + unfiltered},
		{"missing scope", `{"action":"subscribe","channels":["agent.status","signal.closed","signal.updated"]}`,
			"subscribed", `{"ref":null,"channels":["signal.closed","signal.updated"],"filters":{"assets":[]},` +
				`"denied":["agent.status"],"resumed":null}`},
		{"twice the same",
			`{"action":"subscribe","channels":["signal.new","signal.new"],"filters":{"assets":["btc","BTC"]}}`,
			"subscribed", `{"ref":null,"channels":["signal.new"],"filters":{"assets":["btc","BTC"]},` +
				`"denied":[],"resumed":null}`},
		{"heartbeat may be named", `{"action":"subscribe","channels":["heartbeat"]}`,
			"subscribed", `{"ref":null,"channels":["heartbeat"],` + unfiltered},
		{"invalid position", `{"action":"subscribe","channels":[],"last_event_id":"garbage"}`,
			"error", `{"ref":null,"code":"invalid_message","message":` +
				`"last_event_id \"garbage\" is not the id of a message, such as 1795253400000-0"}`},
		{"unsubscribe", `{"action":"unsubscribe","channels":["signal.new"],"ref":"b"}`,
			"unsubscribed", `{"ref":"b","channels":["system.notification"]}`},
		{"unsubscribe from all", `{"action":"unsubscribe"}`,
			"unsubscribed", `{"ref":null,"channels":[]}`},
		{"unsubscribe from none", `{"action":"unsubscribe","channels":[]}`,
			"unsubscribed", `{"ref":null,"channels":["signal.new","system.notification"]}`},
		{"unsubscribe from another channel", `{"action":"unsubscribe","channels":["signal.closed"]}`,
			"unsubscribed", `{"ref":null,"channels":["signal.new","system.notification"]}`},
		{"ping", `{"action":"ping","ref":"c"}`, "pong", `{"ref":"c"}`},
		{"unknown action", `{"action":"nap","ref":"d"}`,
			"error", `{"ref":"d","code":"unknown_action","message":` +
				`"no action \"nap\": must be one of: auth, subscribe, unsubscribe, ping"}`},
		{"unknown channel", `{"action":"subscribe","channels":["signal.old"],"ref":"a4"}`,
			"error", `{"ref":"a4","code":"unknown_channel","message":"no channel \"signal.old\": must be one of: ` +
				`signal.new, signal.updated, signal.closed, agent.status, system.notification, market.price, heartbeat"}`},
		{"unknown member", `{"action":"ping","Ref":"d"}`,
			"error", `{"ref":null,"code":"invalid_message","message":` +
				`"no member \"Ref\" (did you mean ref?): must be one of: action, ref"}`},
		{"bad filter", `{"action":"subscribe","filters":{"asset":"BTC"}}`,
			"error", `{"ref":null,"code":"invalid_filter","message":` +
				`"no filter \"asset\" (did you mean assets?): must be one of: assets, agents, strategies, ` +
				`directions, min_confidence, min_expected_r_net"}`},
		{"no JSON", `hello`,
			"error", `{"ref":null,"code":"invalid_message","message":"a message must be one JSON object ` +
				`such as {\"action\":\"subscribe\",\"channels\":[\"signal.new\"]}"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := s.welcomed(signals)
			c.tb = t
			c.wantReply(test.send, test.kind, test.data)
		})
	}
}

func TestErrorsChangeNothing(t *testing.T) {
	t.Parallel()
	s, c := newClient(t, nil)
	c.ask(`{"action":"subscribe","channels":["signal.new","signal.old"]}`, "error")
	c.ask(`{"action":"unsubscribe","channel":["signal.new"]}`, "error")
	s.journal.append(created(alice, "BTC"))
	c.want("signal.new")
}

func TestTenthErrorWithinAMinuteCloses(t *testing.T) {
	t.Parallel()
	_, c := newClient(t, nil)
	for range errorsPerMinute {
		c.ask(`{}`, "error")
	}
	c.wantClose(closeErrors)
}

func TestTooManyMessages(t *testing.T) {
	t.Parallel()
	const rate = 20
	_, c := newClient(t, nil)
	for i := range rate + errorsPerMinute {
		c.send(fmt.Sprintf(`{"action":"ping","ref":"%d"}`, i))
	}
	pongs, refused := 0, 0
	for range rate + errorsPerMinute {
		e, err := c.next()
		if err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case "pong":
			pongs++
		case "error":
			refused++
			data := string(e.Data)
			if !strings.Contains(data, `"code":"too_many_messages"`) || !strings.Contains(data, `"ref":"2`) {
				t.Errorf("error: %s", data)
			}
		}
	}
	if pongs != rate || refused != errorsPerMinute {
		t.Errorf("%d pongs and %d errors", pongs, refused)
	}
	c.wantClose(closeFlood)
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.MaxConnections = 2 })
	first := s.welcomed(principalOf(alice))
	s.welcomed(principalOf(alice))
	s.dial(principalOf(alice)).wantClose(closeTooManyConns)
	s.welcomed(principalOf(bob))
	first.ws.Close()
	until(t, "the first has ended", func() bool {
		s.hub.publishing.Lock()
		defer s.hub.publishing.Unlock()
		return s.hub.listened[alice].connections == 1
	})
	s.welcomed(principalOf(alice))
}

func TestBadFramesClose(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	tests := []struct {
		name string
		send func(ws *websocket.Conn) error
		want closing
	}{
		{"binary", func(ws *websocket.Conn) error {
			return ws.WriteMessage(websocket.BinaryMessage, []byte{1})
		}, closeBinary},
		{"bad UTF-8", func(ws *websocket.Conn) error {
			return ws.WriteMessage(websocket.TextMessage, []byte("{\"action\":\"\xff\"}"))
		}, closeBadText},
		{"too large", func(ws *websocket.Conn) error {
			return ws.WriteMessage(websocket.TextMessage, make([]byte, maxMessageBytes+1))
		}, closeTooLarge},
		{"too large in fragments", func(ws *websocket.Conn) error {
			w, err := ws.NextWriter(websocket.TextMessage)
			for range 30 {
				if err == nil {
					_, err = w.Write([]byte(strings.Repeat(" ", 1000)))
				}
			}
			return err
		}, closeTooLarge},
		{"not masked", func(ws *websocket.Conn) error {
			_, err := ws.NetConn().Write([]byte{finalBit | opText, 2, '{', '}'})
			return err
		}, closeProtocol},
		{"reserved bit", func(ws *websocket.Conn) error {
			_, err := ws.NetConn().Write([]byte{finalBit | 0x40 | opText, maskBit, 0, 0, 0, 0})
			return err
		}, closeProtocol},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := s.welcomed(principalOf(alice))
			c.tb = t
			c.send(`{"action":"ping","ref":"before"}`)
			if err := test.send(c.ws); err != nil {
				t.Fatal(err)
			}
			c.wantData("pong", `{"ref":"before"}`)
			c.wantClose(test.want)
		})
	}
}

func TestLargestMessageIsAccepted(t *testing.T) {
	t.Parallel()
	_, c := newClient(t, nil)
	text := `{"action":"ping","ref":"big"}`
	c.wantReply(text+strings.Repeat(" ", maxMessageBytes-len(text)), "pong", `{"ref":"big"}`)
}

func TestControlFrames(t *testing.T) {
	t.Parallel()
	s, c := newClient(t, nil)
	var pong string
	c.ws.SetPongHandler(func(data string) error {
		pong = data
		return nil
	})
	if err := c.ws.WriteControl(websocket.PingMessage, []byte("a ping"), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	c.wantNothing()
	if pong != "a ping" {
		t.Errorf("pong: %q", pong)
	}
	done, away := websocket.FormatCloseMessage(1000, "done"), websocket.FormatCloseMessage(1001, "")
	for _, payload := range [][]byte{nil, done, away} {
		c := s.welcomed(principalOf(alice))
		if err := c.ws.WriteControl(websocket.CloseMessage, payload, time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		c.wantClose(closeBye)
	}
}

// TestAFloodOfPingsIsNotAnswered beyond the rate of messages.
func TestAFloodOfPingsIsNotAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.MessageRate = 5 })
		p, _ := b.attach()
		r := &reading{peer: p}
		answers := func(pings int) (n int) {
			b.flusher.inbox = nil
			for range pings {
				r.take(masked(finalBit|opPing, "x"))
			}
			for _, o := range b.flusher.inbox {
				if _, ok := o.(pinged); ok {
					n++
				}
			}
			return n
		}
		for _, c := range []struct {
			pause       time.Duration
			pings, want int
		}{{0, 3, 3}, {0, 100, 2}, {999 * time.Millisecond, 100, 0}, {time.Millisecond, 100, 5}} {
			time.Sleep(c.pause)
			if n := answers(c.pings); n != c.want {
				t.Errorf("%d of %d pings after %v are answered, want %d", n, c.pings, c.pause, c.want)
			}
		}
	})
}

func TestHeartbeatsAndPings(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	s := newService(t, func(o *Options) {
		o.Heartbeat, o.PingInterval, o.LifeTimeout = 150*time.Millisecond, 50*time.Millisecond, 2*time.Second
	})
	pings := 0
	c := s.welcomed(principalOf(alice))
	answer := c.ws.PingHandler()
	c.ws.SetPingHandler(func(data string) error {
		pings++
		return answer(data)
	})
	c.ask(`{"action":"unsubscribe"}`, "unsubscribed")
	for range 20 { // longer than the life timeout: the pongs keep it alive
		if e := c.want("heartbeat"); e.Data != nil || e.ID != "" {
			t.Fatalf("heartbeat: %+v", e)
		}
	}
	if pings == 0 {
		t.Error("no ping")
	}
	silent := s.welcomed(principalOf(alice))
	silent.ws.SetPingHandler(func(string) error { return nil })
	silent.wantClose(closeLifeless)
}

func TestRevocationsClose(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	session, ended := signal.NewSessionIDAt(time.Now()), signal.NewSessionIDAt(time.Now())
	key := principalOf(alice)
	jwt := &signal.Principal{Account: alice, Session: session, Scopes: signal.AllScopes}
	otherJWT := &signal.Principal{Account: alice, Session: ended, Scopes: signal.AllScopes}
	stays := s.welcomed(principalOf(alice))
	foreign := s.welcomed(principalOf(bob))
	a, b, d := s.welcomed(key), s.welcomed(jwt), s.welcomed(otherJWT)
	twin := s.welcomed(key)

	s.journal.append(signal.Event{Account: alice, Type: signal.SessionEnded, Subject: string(ended)})
	d.wantClose(closeUnauth)
	b.wantNothing()
	// A connection that was authenticated just before the revocation and arrives after it.
	s.dial(otherJWT).wantClose(closeUnauth)
	s.journal.append(signal.Event{Account: alice, Type: signal.KeyRevoked, Subject: string(key.Key)})
	a.wantClose(closeUnauth)
	twin.wantClose(closeUnauth)
	for _, p := range []*signal.Principal{key, otherJWT} { // the earlier revocation still counts, too
		s.dial(p).wantClose(closeUnauth)
	}
	s.journal.append(signal.Event{Account: alice, Type: signal.SessionEnded})
	b.wantClose(closeUnauth)
	last := s.journal.events[len(s.journal.events)-1].Position
	until(t, "the clock advances", func() bool { return time.Now().UnixMilli() > last.MS })
	s.welcomed(&signal.Principal{Account: alice, Session: signal.NewSessionIDAt(time.Now()), Scopes: signal.AllScopes})
	stays.wantNothing()
	s.journal.append(signal.Event{Account: alice, Type: signal.AccountDeleted})
	stays.wantClose(closeForbidden)
	s.dial(principalOf(alice)).wantClose(closeForbidden)
	foreign.wantNothing()
}
