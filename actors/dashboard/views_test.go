package dashboard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/signal"
)

var (
	testAgents     = []signal.AgentID{"trading", "seo"}
	testStrategies = []string{"momentum", "breakout"}
)

// randomPrincipal returns a principal of alice, often a reader with a random view.
func randomPrincipal(r *rand.Rand) *signal.Principal {
	p := principalOf(alice)
	if r.IntN(3) == 0 {
		return p
	}
	some := func(all []string) signal.Names {
		if r.IntN(2) == 0 {
			return signal.Names{}
		}
		return signal.NamesOf(slices.DeleteFunc(slices.Clone(all), func(string) bool { return r.IntN(2) == 0 })...)
	}
	p.View, p.MaxConnections = signal.NewView(some(texts(testAgents)), some(testAssets), some(testStrategies)), 5
	p.Scopes = signal.ReaderScopes
	return p
}

// getsSignals reports whether s gets some new signals, so that who reads them does not wait for ever.
func (s *subscription) getsSignals() bool {
	some := func(n signal.Names) bool { return n.All() || len(n.List()) > 0 }
	return s.channels.has(signalNew) && (s.assets.every || len(s.assets.list) > 0) &&
		(s.view == nil || some(s.view.Agents) && some(s.view.Strategies))
}

// wantSeenBy checks that p sees the events of these ids.
func (s *service) wantSeenBy(p *signal.Principal, ids map[string]bool) {
	s.tb.Helper()
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	for i := range s.journal.events {
		if e := &s.journal.events[i]; ids[e.Position.String()] && !mayGet(p.View, e) {
			s.tb.Errorf("a reader of %v got %s of %q, %q and %q", p.View, e.Type, e.Agent, e.Asset, e.Strategy)
			return
		}
	}
}

// mayGet says in the words of the specification who gets an event.
func mayGet(v *signal.View, e *signal.Event) bool {
	switch {
	case v == nil:
		return true
	case e.Type == signal.SystemNotification:
		return false
	case e.Listing != nil:
		return v.Sees(e.Listing.Agent, e.Asset, e.Listing.Strategy)
	}
	return v.Sees(e.Agent, e.Asset, e.Strategy)
}

// readerOf returns a reader of alice with its view as JSON.
func readerOf(view string) *signal.Principal {
	v, err := signal.ParseView(view)
	if err != nil {
		panic(err)
	}
	p := principalOf(alice)
	p.View, p.MaxConnections, p.Scopes = v, 5, signal.ReaderScopes
	return p
}

// seen returns the event of a new signal.
func seen(agent signal.AgentID, asset, strategy string) signal.Event {
	e := created(alice, asset)
	e.Listing = &signal.Listing{Agent: agent, Strategy: strategy}
	return e
}

// TestWhatAppliesOfAView: a filter selects among what the view has, and what remains may be nothing, which is not everything.
func TestWhatAppliesOfAView(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) {
		o.MessageRate = 1000
		o.Name = func(asset string) string {
			if strings.EqualFold(asset, "bitcoin") {
				return "BTC"
			}
			return asset
		}
	})
	for _, test := range []struct{ view, filters, want, gets string }{
		{`{}`, `{}`, `{}`, "BTC ETH SOL status"},
		{`{"assets":["ETH"]}`, `{}`, `{"assets":["ETH"]}`, "ETH"},
		{`{"assets":["ETH"]}`, `{"assets":["BTC"]}`, `{"assets":[]}`, ""},
		{`{"assets":["eth","BTC"]}`, `{"assets":["ETH","SOL"]}`, `{"assets":["eth"]}`, "ETH status"},
		{`{"assets":["BTC"]}`, `{"assets":["bitcoin"]}`, `{"assets":["BTC"]}`, "BTC status"},
		{`{"assets":["bitcoin"]}`, `{}`, `{"assets":["bitcoin"]}`, ""}, // a view has catalogue names
		{`{}`, `{"assets":["bitcoin"]}`, `{"assets":["bitcoin"]}`, "BTC status"},
		{`{"assets":[]}`, `{}`, `{"assets":[]}`, ""},
		{`{"assets":[]}`, `{"assets":["BTC"]}`, `{"assets":[]}`, ""},
		{`{"agents":[]}`, `{}`, `{"agents":[]}`, ""},
		{`{"strategies":[]}`, `{"directions":["long"]}`, `{"strategies":[]}`, ""},
		{`{"agents":["trading"]}`, `{"strategies":["momentum"]}`, `{"agents":["trading"],"strategies":["momentum"]}`,
			"BTC status"},
		{`{"agents":["trading"],"strategies":["momentum","breakout"]}`, `{"agents":["trading"],"strategies":["breakout"]}`,
			`{"agents":["trading"],"strategies":["breakout"]}`, "ETH status"},
		{`{"agents":["seo"]}`, `{}`, `{"agents":["seo"]}`, "SOL"},
		// The filter of a client does not concern agent.status, its view does.
		{`{"assets":["BTC","ETH"]}`, `{"assets":["ETH"]}`, `{"assets":["ETH"]}`, "ETH status"},
		{`{"assets":["BTC"],"strategies":["momentum"]}`, `{"assets":["ETH"]}`, `{"assets":[],"strategies":["momentum"]}`,
			"status"},
	} {
		c := s.welcomed(readerOf(test.view))
		e := c.ask(`{"action":"subscribe","filters":`+test.filters+`}`, "subscribed")
		c.wantPart(e, `"view":`+test.want+`,"denied"`)
		s.journal.append(seen("trading", "BTC", "momentum"), seen("trading", "ETH", "breakout"), seen("seo", "SOL", "article"),
			signal.Event{Account: alice, Type: signal.AgentFailed, Agent: "trading", Run: "r", Asset: "BTC",
				Strategy: "momentum"},
			signal.Event{Account: alice, Type: signal.AgentStarted, Agent: "trading", Run: "r"}, // of what is not known
			signal.Event{Account: alice, Type: signal.SystemNotification,
				Data: []byte(`{"message":"Webhook whk_1 was disabled"}`)})
		var got []string
		for _, e := range c.untilPong() {
			switch {
			case e.Type == "system.notification":
				t.Errorf("a reader of %s got %s", test.view, e.Data)
			case e.Type == "agent.status" && strings.Contains(string(e.Data), `"running"`):
				if !strings.Contains(test.view, "assets") && !strings.Contains(test.view, "strategies") &&
					!strings.Contains(test.view, `"seo"`) && !strings.Contains(test.view, "[]") {
					continue // a view of all assets and strategies has it
				}
				t.Errorf("a reader of %s got the status of a run of unknown asset and strategy", test.view)
			case e.Type == "agent.status":
				got = append(got, "status")
			default:
				got = append(got, assetIn(e))
			}
		}
		if fmt.Sprint(got) != "["+test.gets+"]" {
			t.Errorf("view %s with the filter %s gets %v, want %s", test.view, test.filters, got, test.gets)
		}
		c.ws.Close()
	}
}

// untilPong returns the messages that have been published for c.
func (c *client) untilPong() []envelope {
	c.tb.Helper()
	var list []envelope
	for range 2 { // the first pong may overtake events
		c.send(`{"action":"ping"}`)
		for {
			e, err := c.next()
			if err != nil {
				c.tb.Fatal(err)
			}
			if e.Type == "pong" {
				break
			}
			list = append(list, e)
		}
	}
	return list
}

// assetIn returns the asset of a message about a signal.
func assetIn(e envelope) string {
	_, rest, _ := strings.Cut(string(e.Data), `"asset":"`)
	asset, _, _ := strings.Cut(rest, `"`)
	return asset
}

// TestOtherClientsHaveNoView in their replies.
func TestOtherClientsHaveNoView(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	c := s.dial(principalOf(alice))
	welcome := c.want("welcome")
	if reply := c.ask(`{"action":"subscribe"}`, "subscribed"); strings.Contains(string(welcome.Data)+string(reply.Data), "view") {
		t.Errorf("got %s and %s", welcome.Data, reply.Data)
	}
	r := s.dial(readerOf(`{"assets":["ETH","BTC"],"agents":[]}`))
	r.wantPart(r.want("welcome"), `"view":{"agents":[],"assets":["BTC","ETH"]}`)
}

// TestNamesThatAViewHasNot do not exist for its reader: those of the account outside of it are answered as any other, and
// errors name only what it has.
func TestNamesThatAViewHasNot(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) {
		o.MessageRate = 1000
		o.AgentNames = func(_ context.Context, account signal.AccountID, v *signal.View) (
			ids []signal.AgentID, strategies []string, err error) {
			for _, a := range []signal.Agent{{ID: "mine", Strategies: []string{"cross", "carry"}},
				{ID: "hers", Strategies: []string{"luck"}}} {
				if a, ok := v.Agent(a); ok && account == alice {
					ids, strategies = append(ids, a.ID), append(strategies, a.Strategies...)
				}
			}
			return ids, strategies, nil
		}
	})
	for _, test := range []struct{ view, filters, want string }{
		{`{"agents":["mine"],"strategies":["cross"]}`, `{"agents":["NAME"]}`,
			`no value of agents \"NAME\": must be one of: mine`},
		{`{"agents":["mine"],"strategies":["cross"]}`, `{"strategies":["NAME"]}`,
			`no value of strategies \"NAME\": must be one of: cross`},
		{`{"agents":["trading"],"strategies":["breakout"]}`, `{"agents":["NAME"]}`,
			`no value of agents \"NAME\": must be one of: trading`},
		{`{"agents":[]}`, `{"agents":["NAME"]}`, `no value of agents \"NAME\": the view of the API key has none`},
	} {
		for _, name := range []string{"hers", "luck", "carry", "weather", "momentum", "nobody"} {
			filters := strings.ReplaceAll(test.filters, "NAME", name)
			want := `{"ref":null,"code":"invalid_filter","message":"` + strings.ReplaceAll(test.want, "NAME", name) + `"}`
			c := s.welcomed(readerOf(test.view))
			c.wantReply(`{"action":"subscribe","filters":`+filters+`}`, "error", want)
			c.ws.Close()
			faults := ""
			values := map[string]string{"agents": name}
			if strings.Contains(filters, "strategies") {
				values = map[string]string{"strategies": name}
			}
			p := readerOf(test.view)
			first := ReadSubscription(p.View, func(param string) (string, bool) { v, ok := values[param]; return v, ok },
				func(_, detail string) { faults += detail })
			if _, detail := s.hub.Refusal(t.Context(), p, first); detail != "" {
				faults += detail
			}
			if want := strings.ReplaceAll(strings.ReplaceAll(test.want, "NAME", name), `\`, ""); faults != want {
				t.Errorf("at the handshake %q, want %q", faults, want)
			}
		}
	}
	c := s.welcomed(readerOf(`{"agents":["mine"],"strategies":["cross"]}`))
	c.ask(`{"action":"subscribe","filters":{"agents":["mine"],"strategies":["cross"]}}`, "subscribed")
	e := c.ask(`{"action":"subscribe","filters":{"strategies":["cros"]}}`, "error")
	c.wantPart(e, `did you mean cross?`)
}

// TestANarrowerCredentialAppliesAtOnce: to the running subscription, whose filter stays, and to what is replayed.
func TestANarrowerCredentialAppliesAtOnce(t *testing.T) {
	t.Parallel()
	for _, ring := range []int{65_536, 2} { // from memory, and from the log
		s := newService(t, func(o *Options) { o.RingFrames = ring })
		wide, narrow, none := principalOf(alice), readerOf(`{"assets":["BTC","ETH"]}`), readerOf(`{"assets":["SOL"]}`)
		s.tokens.know("wide", *wide)
		s.tokens.know("narrow", *narrow)
		s.tokens.know("none", *none)
		three := func() []signal.Position {
			return s.journal.append(seen("trading", "BTC", "momentum"), seen("trading", "ETH", "momentum"),
				seen("trading", "SOL", "momentum"))
		}
		c := s.welcomed(wide)
		first := three()
		c.wantEvents("signal.new", first...)
		c.ask(`{"action":"auth","api_key":"narrow"}`, "welcome")
		second := three()
		c.wantEvents("signal.new", second[:2]...)
		c.ask(`{"action":"subscribe","filters":{"assets":["ETH","SOL"]}}`, "subscribed")
		third := three()
		c.wantEvents("signal.new", third[1])
		c.ask(`{"action":"auth","api_key":"none"}`, "welcome")
		fourth := three()
		c.wantEvents("signal.new", fourth[2]) // of ETH and SOL by the filter
		c.subscribe(after1(first[2]), `{"replayed":2,"complete":true}`, second[2], third[2])
		c.subscribe(after1(first[0]), `{"replayed":0,"complete":false}`) // that event is not in the view
		c.ask(`{"action":"auth","api_key":"wide"}`, "welcome")
		c.wantEvents("signal.new", three()...)
	}
}

// TestAReaderResumesFromWhatItSees: a position of an event outside of its view is answered as one that does not exist.
func TestAReaderResumesFromWhatItSees(t *testing.T) {
	t.Parallel()
	for _, ring := range []int{65_536, 2} {
		s := newService(t, func(o *Options) { o.RingFrames, o.MessageRate = ring, 1000 })
		p := s.journal.append(seen("trading", "ETH", "momentum"), seen("trading", "BTC", "momentum"),
			seen("trading", "BTC", "breakout"), seen("trading", "BTC", "momentum"), seen("trading", "ETH", "breakout"))
		c := s.welcomed(readerOf(`{"assets":["BTC"]}`))
		never := signal.Position{MS: p[0].MS - 1}
		for _, hidden := range []signal.Position{p[0], p[4], never} {
			c.subscribe(after1(hidden), `{"replayed":0,"complete":false}`)
		}
		c.subscribe(after1(p[1])+`,"filters":{"strategies":["momentum"]}`, `{"replayed":1,"complete":true}`, p[3])
		c.subscribe(after1(p[1]), `{"replayed":1,"complete":true}`, p[2])
	}
}

// TestEventsDuringASearchOfAReader, which are held until its replay has ended.
func TestEventsDuringASearchOfAReader(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.RingFrames = 2 })
	p := s.journal.append(slices.Repeat(
		[]signal.Event{seen("trading", "BTC", "momentum"), seen("trading", "ETH", "momentum")}, 3)...)
	during := s.duringASearch(seen("trading", "ETH", "momentum"), seen("trading", "BTC", "momentum"))
	during.armed.Store(true)
	c := s.dialQuery(readerOf(`{"assets":["BTC"]}`), websocket.DefaultDialer, "last_event_id="+p[0].String())
	c.wantPart(c.want("subscribed"), `"replayed":3,"complete":true`)
	c.want("welcome")
	c.wantEvents("signal.new", p[2], p[4], (<-during.published)[1])
	c.wantNothing()

	during.armed.Store(true) // and a resume that is not possible
	never := signal.Position{MS: p[0].MS - 1}
	c.wantPart(c.ask(`{"action":"subscribe",`+after1(never)+`}`, "subscribed"), `"complete":false`)
	c.wantEvents("signal.new", (<-during.published)[1])
	c.wantNothing()
}

// TestAReaderCatchesUp with what is published while it reads a replay slowly.
func TestAReaderCatchesUp(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	large := func(asset string) signal.Event {
		e := bulky(3000)
		e.Asset, e.Listing = asset, &signal.Listing{Agent: "trading", Strategy: "momentum"}
		return e
	}
	all := s.journal.append(slices.Repeat([]signal.Event{large("BTC")}, 1001)...)
	c := s.dialWith(readerOf(`{"assets":["BTC"]}`), smallDialer(64<<10))
	c.want("welcome")
	c.ask(`{"action":"subscribe",`+after1(all[0])+`}`, "subscribed")
	until(t, "the replay has begun", func() bool { return refusedPeers(s.hub) == 1 })
	later := s.journal.append(large("ETH"), large("BTC"), large("ETH"))
	c.wantEvents("signal.new", all[1:]...)
	c.wantEvents("signal.new", later[1])
	c.wantNothing()
}

// TestPricesOfAReader are those of the assets that its view has.
func TestPricesOfAReader(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	p := newTicker(s)
	p.set("BTC", 64250.125)
	p.set("ETH", 3000)
	c := s.welcomed(readerOf(`{"assets":["ETH"],"agents":["trading"]}`))
	c.subscribe(`"channels":["market.price"],"filters":{"assets":["BTC","ETH"]}`, `null`)
	p.round()
	c.wantPrice("ETH", 3000)
	p.set("BTC", 64251)
	p.set("ETH", 3001)
	p.round()
	c.wantPrice("ETH", 3001)
	c.wantNothing()
}

// TestEqualViewsShareACohort, and equal filters of other views do not.
func TestEqualViewsShareACohort(t *testing.T) {
	t.Parallel()
	a := newAudience(alice, 0, nil)
	sub := func(view, asset string) *subscription {
		s := newSubscription(defaultChannels, []string{asset})
		if view == "" {
			return s
		}
		return s.with(defaultChannels, readerOf(view).View)
	}
	base := a.cohort(sub(`{"assets":["BTC","ETH"]}`, "BTC"), webSocket)
	if a.cohort(sub(`{"assets":["ETH","BTC","ETH"]}`, "btc"), webSocket) != base {
		t.Error("an equal view has another cohort")
	}
	for _, other := range []*subscription{sub("", "BTC"), sub(`{}`, "BTC"), sub(`{"assets":["BTC"]}`, "BTC"),
		sub(`{"assets":["BTC","ETH"]}`, "ETH"), sub(`{"assets":["BTC","ETH"],"agents":["trading"]}`, "BTC")} {
		if a.cohort(other, webSocket) == base {
			t.Errorf("view %v shares the cohort", other.view)
		}
	}
}

// TestViewsOfManyAssets are never refused: beyond the number of assets that an index may have, their readers are compared with
// every message. The account itself keeps its number.
func TestViewsOfManyAssets(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.MaxAssets, o.MessageRate = 10, 1000 })
	var readers []*client
	for i := range 5 {
		view := fmt.Sprintf(`{"assets":["A%d","B%d","C%d","D%d"]}`, i, i, i, i)
		readers = append(readers, s.welcomed(readerOf(view)))
	}
	owner := s.welcomed(principalOf(alice))
	owner.subscribe(assets("own", 10), `null`)
	s.hub.names.mu.Lock()
	if n := len(s.hub.names.counts[namer{alice, true}]); n != 8 {
		t.Errorf("%d names of readers are in the index, want those of two", n)
	}
	s.hub.names.mu.Unlock()
	for i := range readers {
		s.journal.append(seen("trading", fmt.Sprintf("B%d", i), "momentum"))
	}
	for i, c := range readers {
		c.wantPart(c.want("signal.new"), fmt.Sprintf(`"asset":"B%d"`, i))
		c.wantNothing()
	}
	// What a client names by itself is refused as of others, and changes nothing.
	all := s.welcomed(readerOf(`{}`))
	e := all.ask(`{"action":"subscribe","filters":{"assets":["x","y","z"]}}`, "error")
	all.wantPart(e, "may name 10 assets together")
	// A filter within a view that is not in the index still selects.
	readers[4].ask(`{"action":"subscribe","filters":{"assets":["C4","A1"]}}`, "subscribed")
	s.journal.append(seen("trading", "A4", "momentum"), seen("trading", "A1", "momentum"), seen("trading", "C4", "momentum"))
	readers[4].wantPart(readers[4].want("signal.new"), `"asset":"C4"`)
	readers[4].wantNothing()
	for _, c := range append(readers, owner, all) {
		c.ws.Close()
	}
	until(t, "no name is remembered", func() bool {
		s.hub.names.mu.Lock()
		defer s.hub.names.mu.Unlock()
		return len(s.hub.names.counts) == 0
	})
}

// TestAReaderByEvents gets what it would get by a WebSocket: live, beside a filter of something else, and by resuming.
func TestAReaderByEvents(t *testing.T) {
	t.Parallel()
	for _, ring := range []int{65_536, 2} {
		s := newService(t, func(o *Options) { o.RingFrames = ring })
		reader := readerOf(`{"assets":["BTC","SOL"],"strategies":["momentum"]}`)
		p := s.journal.append(seen("trading", "ETH", "momentum"), seen("trading", "BTC", "momentum"),
			seen("trading", "SOL", "momentum"), seen("trading", "BTC", "breakout"), seen("trading", "BTC", "momentum"))
		from := func(at signal.Position) string { return "&last_event_id=" + at.String() }
		const all = "channels=signal.new,agent.status,system.notification"
		live := s.events(reader, "")
		live.wantPart(live.want("welcome"), `"view":{"assets":["BTC","SOL"],"strategies":["momentum"]}`)
		outside := s.events(reader, all+"&assets=ETH")
		outside.wantPart(outside.want("subscribed"), `"view":{"assets":[],"strategies":["momentum"]}`)
		outside.want("welcome")
		resumed := s.events(reader, all+"&assets=BTC,ETH"+from(p[1]))
		resumed.wantPart(resumed.want("subscribed"), `"replayed":1,"complete":true`)
		resumed.want("welcome")
		hidden := s.events(reader, all+from(p[0]))
		hidden.wantPart(hidden.want("subscribed"), `"replayed":0,"complete":false`)
		hidden.want("welcome")
		next := s.journal.append(seen("trading", "ETH", "momentum"), seen("seo", "SOL", "breakout"),
			signal.Event{Account: alice, Type: signal.AgentStarted, Agent: "trading", Run: "r", Asset: "ETH",
				Strategy: "momentum"},
			signal.Event{Account: alice, Type: signal.SystemNotification, Data: []byte(`{"message":"news"}`)},
			seen("trading", "SOL", "momentum"), seen("trading", "BTC", "momentum"))
		live.wantEvents("signal.new", next[4:]...)
		resumed.wantEvents("signal.new", p[4], next[5])
		hidden.wantEvents("signal.new", next[4:]...)
		s.journal.append(signal.Event{Account: alice, Type: signal.AgentFailed, Agent: "trading", Run: "r", Asset: "SOL",
			Strategy: "momentum"})
		outside.want("agent.status") // the first event that it gets: a filter of assets does not concern it
	}
}
