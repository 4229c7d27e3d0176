package dashboard

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestMessagesOfEvents(t *testing.T) {
	t.Parallel()
	s, c := newClient(t, nil)
	c.ask(`{"action":"subscribe","channels":`+
		`["signal.new","signal.updated","signal.closed","agent.status","system.notification"]}`, "subscribed")
	status := func(text string) string { return `{"agent_id":"trading","status":"` + text + `","run_id":"run_1"}` }
	tests := []struct {
		event            signal.EventType
		data, kind, want string
	}{
		{signal.SignalCreated, `{"asset":"BTC","entry_price":1}`,
			"signal.new", `{"asset":"BTC","entry_price":1,"created_at":"TIME"}`},
		{signal.SignalUpdated, `{"asset":"BTC"}`, "signal.updated", `{"asset":"BTC"}`},
		{signal.SignalClosed, `{"asset":"BTC"}`, "signal.closed", `{"asset":"BTC"}`},
		{signal.AgentStarted, `{"job_id":null}`, "agent.status", status("running")},
		{signal.AgentCompleted, "", "agent.status", status("completed")},
		{signal.AgentFailed, "", "agent.status", status("error")},
		{signal.SystemNotification, `{"message":"m","severity":"info"}`,
			"system.notification", `{"message":"m","severity":"info"}`},
	}
	for _, test := range tests {
		event := signal.Event{Account: alice, Type: test.event, Data: []byte(test.data)}
		if strings.HasPrefix(string(test.event), "signal.") {
			event.Asset = "BTC"
		} else if test.kind == "agent.status" {
			event.Agent, event.Run = "trading", "run_1"
		}
		hidden := signal.Event{Account: alice, Type: signal.WebhookTest, Data: []byte(`{}`)}
		at := s.journal.append(hidden, created(bob, "BTC"), event)[2]
		e := c.want(test.kind)
		stamp := at.Time().UTC().Format(signal.TimeLayout)
		if e.ID != at.String() || e.Timestamp != stamp {
			t.Errorf("id %s at %s, want %s at %s", e.ID, e.Timestamp, at, stamp)
		}
		if d := cmp.Diff(strings.ReplaceAll(test.want, "TIME", stamp), string(e.Data)); d != "" {
			t.Errorf("data of %s: %s", test.kind, d)
		}
	}
	c.wantNothing()
}

func TestFilters(t *testing.T) {
	t.Parallel()
	s, c := newClient(t, nil)
	c.subscribe(`"channels":["signal.new","agent.status"],"filters":{"assets":["btc","Eth"]}`, `null`)
	s.journal.append(created(alice, "SOL"), created(alice, "BTC"), created(bob, "BTC"), created(alice, "eTH"),
		signal.Event{Account: alice, Type: signal.SystemNotification, Data: []byte(`{}`)},
		signal.Event{Account: alice, Type: signal.AgentStarted, Agent: "trading", Run: signal.NewRunID()})
	for _, asset := range []string{"BTC", "eTH"} {
		c.wantPart(c.want("signal.new"), `"asset":"`+asset+`"`)
	}
	c.want("agent.status")
	c.ask(`{"action":"unsubscribe","channels":["agent.status"]}`, "unsubscribed")
	started := signal.Event{Account: alice, Type: signal.AgentStarted, Agent: "trading"}
	s.journal.append(started, created(alice, "SOL"), created(alice, "BTC"))
	c.want("signal.new") // the filter stays
	c.wantNothing()
}

// An open signal that was stored under an alias is found by the asset's name. A subject of
// content is not renamed.
func TestFiltersFindSignalsUnderAliases(t *testing.T) {
	t.Parallel()
	entry := 1.0
	o := Options{Name: func(asset string) string {
		if strings.EqualFold(asset, "btcusdt") {
			return "BTC"
		}
		return asset
	}}
	for _, c := range []struct {
		listing *signal.Listing
		want    string
	}{
		{&signal.Listing{Entry: &entry}, "BTC"}, {&signal.Listing{}, "BTCUSDT"}, {nil, "BTCUSDT"},
	} {
		e := signal.Event{Type: signal.SignalUpdated, Asset: "btcusdt", Listing: c.listing, Data: []byte("{}")}
		if f := newFrame(&e, o.Name); f.asset != assetOf(c.want) {
			t.Errorf("%+v is found by %q, want %q", c.listing, f.asset.Value(), c.want)
		}
	}
}

// A filter matches an asset by any of its spellings, and a subject of content by the
// spelling in the filter.
func TestFiltersKnowAliases(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) {
		o.Name = func(asset string) string {
			return strings.NewReplacer("BTCUSDT", "BTC", "GOLD", "XAUUSD").Replace(strings.ToUpper(asset))
		}
	})
	c := s.welcomed(principalOf(alice))
	const assets = `"assets":["btcusdt","gold"]`
	c.wantPart(c.ask(`{"action":"subscribe","channels":["signal.new"],"filters":{`+assets+`}}`, "subscribed"), assets)
	for _, asset := range []string{"SOL", "BTC", "BTCUSDT", "gold", "XAUUSD"} {
		s.journal.append(created(alice, asset))
	}
	for _, asset := range []string{"BTC", "BTCUSDT", "gold", "XAUUSD"} {
		c.wantPart(c.want("signal.new"), `"asset":"`+asset+`"`)
	}
	c.ask(`{"action":"unsubscribe","channels":["signal.closed"]}`, "unsubscribed")
	s.journal.append(created(alice, "SOL"), created(alice, "BTC"))
	c.want("signal.new") // the aliases stay
	c.wantNothing()
	c.ask(`{"action":"subscribe","channels":["signal.new"],"filters":{"assets":["BTC"]}}`, "subscribed")
	alias := created(alice, "btcusdt")
	alias.Listing = &signal.Listing{Entry: new(1.0)}
	s.journal.append(created(alice, "btcusdt"), alias) // the former is of content
	c.want("signal.new")
	c.wantNothing()
}

// matching returns the ids of the events that sub matches, from one on.
func (j *journal) matching(account signal.AccountID, sub *subscription, from signal.Position) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var ids []string
	for i := range j.events {
		e := &j.events[i]
		if e.Account != account || e.Position.Compare(from) < 0 {
			continue
		}
		if f := newFrame(e, nil); f != nil && f.revoked == nil && sub.matches(f) {
			ids = append(ids, e.Position.String())
		}
	}
	return ids
}

var testAssets = []string{"BTC", "ETH", "SOL", "AAPL"}

// randomEvent returns an event of alice, rarely one of bob.
func randomEvent(r *rand.Rand) signal.Event {
	account := alice
	if r.IntN(8) == 0 {
		account = bob
	}
	asset := testAssets[r.IntN(len(testAssets))]
	data := fmt.Appendf(nil, `{"asset":%q,"text":%q}`, asset, strings.Repeat("x", r.IntN(300)))
	agent := testAgents[r.IntN(len(testAgents))]
	strategy := testStrategies[r.IntN(len(testStrategies))]
	listing := &signal.Listing{Agent: agent, Strategy: strategy}
	switch r.IntN(8) {
	case 0:
		e := signal.Event{Account: account, Type: signal.AgentStarted, Agent: agent, Run: signal.NewRunID()}
		if r.IntN(4) > 0 { // as far as known
			e.Asset, e.Strategy = asset, strategy
		}
		return e
	case 1:
		return signal.Event{Account: account, Type: signal.SystemNotification, Data: data}
	case 2:
		return signal.Event{Account: account, Type: signal.WebhookTest, Data: data}
	case 3:
		return signal.Event{Account: account, Type: signal.SignalClosed, Asset: asset, Listing: listing, Data: data}
	}
	return signal.Event{Account: account, Type: signal.SignalCreated, Asset: asset, Listing: listing, Data: data}
}

func randomEvents(r *rand.Rand, n int) []signal.Event {
	events := make([]signal.Event, n)
	for i := range events {
		events[i] = randomEvent(r)
	}
	return events
}

// randomSubscription returns a subscription and the members that ask for it.
func randomSubscription(r *rand.Rand) (*subscription, string) {
	list, assets := []channel{}, []string{}
	for ch := range heartbeat {
		if r.IntN(2) == 0 {
			list = append(list, ch)
		}
	}
	for _, a := range testAssets {
		if r.IntN(3) == 0 {
			assets = append(assets, a)
		}
	}
	if len(assets) == 0 { // market.price needs one
		list = slices.DeleteFunc(list, func(ch channel) bool { return ch == marketPrice })
	}
	quoted := func(items []string) string {
		if len(items) == 0 {
			return "[]"
		}
		return `["` + strings.Join(items, `","`) + `"]`
	}
	members := `"channels":` + quoted(names(list)) + `,"filters":{"assets":` + quoted(assets) + `}`
	return newSubscription(list, assets), members
}

// Clients connect and disconnect while events are published, each with one subscription
// that it resumes.
func TestResumeLeavesNoGapAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		ring int
	}{{"from the ring", 65_536}, {"from the log", 300}} {
		t.Run(test.name, func(t *testing.T) {
			s := newService(t, func(o *Options) { o.RingFrames = test.ring })
			for range 20 {
				s.journal.record(randomEvent(rand.New(rand.NewPCG(1, 2)))) // before the node started
			}
			s.journal.skip()
			const clients, sessions = 6, 12
			var idle, all sync.WaitGroup // clients with sessions to come, and all
			idle.Add(clients)
			done, quiet := make(chan struct{}), make(chan struct{})
			for i := range clients {
				all.Go(func() {
					r := rand.New(rand.NewPCG(7, uint64(i)))
					resumingClient(t, s, r, sessions, sync.OnceFunc(idle.Done), quiet)
				})
			}
			go func() {
				idle.Wait()
				close(done)
			}()
			r := rand.New(rand.NewPCG(11, 13))
			for running := true; running; {
				select {
				case <-done:
					running = false
					continue
				default:
				}
				s.journal.append(randomEvents(r, 1+r.IntN(5))...)
				time.Sleep(500 * time.Microsecond) // bounds the log; nothing depends on it
			}
			close(quiet)
			all.Wait()
		})
	}
}

// resumingClient connects repeatedly and finally checks that it got all events.
func resumingClient(t *testing.T, s *service, r *rand.Rand, sessions int, idle func(), quiet chan struct{}) {
	defer idle()
	sub, members, principal := &subscription{}, "", principalOf(alice)
	for !sub.getsSignals() {
		sub, members = randomSubscription(r)
		principal = randomPrincipal(r)
		sub = sub.with(channelsIn(sub), principal.View)
	}
	s.tokens.know(string(principal.Key), *principal)
	got := map[string]bool{}
	var from, last signal.Position
	for session := 0; ; session++ {
		final := session >= sessions
		if final {
			idle()
			<-quiet
		}
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond) // misses more; nothing depends on it
		}
		resume := ""
		if !last.IsZero() {
			resume = `,"last_event_id":"` + last.String() + `"`
		}
		p, err := oneSession(s, r, principal, sub, `{"action":"subscribe",`+members+resume+`}`, resume != "", got, final)
		if err != nil {
			t.Errorf("session %d of %s: %v", session, members, err)
			return
		}
		if from.IsZero() {
			from = p.first
		}
		last = last.Later(p.last)
		if final {
			break
		}
	}
	s.wantSeenBy(principal, got)
	if from.IsZero() {
		return
	}
	for _, id := range s.journal.matching(alice, sub, from) {
		if !got[id] {
			t.Errorf("%s: %s is missing", members, id)
			return
		}
	}
}

// oneSession connects, subscribes, reads for a while and disconnects without a close
// frame. It returns the first and the last position after the subscription.
func oneSession(
	s *service, r *rand.Rand, principal *signal.Principal, sub *subscription, subscribe string, resume bool,
	got map[string]bool, final bool,
) (passage, error) {
	ws, _, err := (&websocket.Dialer{}).Dial("ws"+strings.TrimPrefix(s.server.URL, "http"), http.Header{})
	if err != nil {
		return passage{}, err
	}
	c := &client{tb: s.tb, ws: ws}
	defer ws.Close()
	if err := ws.WriteMessage(websocket.TextMessage,
		[]byte(`{"action":"auth","api_key":"`+string(principal.Key)+`"}`)); err != nil {
		return passage{}, err
	}
	if r.IntN(2) == 0 {
		time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
	}
	if err := ws.WriteMessage(websocket.TextMessage, []byte(subscribe)); err != nil {
		return passage{}, err
	}
	var p passage
	here, subscribed := map[string]bool{}, false
	for n := r.IntN(100); n > 0 || final && !subscribed; n-- {
		e, err := c.next()
		if err != nil {
			return p, err
		}
		switch {
		case e.Type == "welcome":
			continue
		case e.Type == "subscribed":
			subscribed = true
			if ok := strings.Contains(string(e.Data), `"complete":true`); ok != resume {
				return p, fmt.Errorf("reply %s", e.Data)
			}
			if final { // nothing more is published
				var reply subscribedData
				if err := json.Unmarshal(e.Data, &reply); err != nil {
					return p, err
				}
				if n = 1; resume {
					n += reply.Resumed.Replayed
				}
			}
			continue
		case here[e.ID]:
			return p, fmt.Errorf("%s came twice", e.ID)
		}
		here[e.ID] = true
		at, _ := signal.ParsePosition(e.ID)
		if !subscribed {
			if ch, _ := parseChannel(e.Type); sub.channels.has(ch) {
				got[e.ID] = true
			}
			continue
		}
		if at.Compare(p.last) <= 0 {
			return p, fmt.Errorf("%s came after %s", e.ID, p.last)
		}
		got[e.ID] = true
		if p.first.IsZero() {
			p.first = at
		}
		p.last = at
	}
	return p, nil
}

// Connections change their subscriptions, some with a resume, while events are published.
func TestChangingSubscriptions(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.RingFrames, o.MessageRate = 2000, 1_000_000 })
	s.journal.append(created(alice, "BTC"))
	const clients, changes = 6, 60
	var wg sync.WaitGroup
	for i := range clients {
		r := rand.New(rand.NewPCG(3, uint64(i)))
		p := randomPrincipal(r)
		c := s.welcomed(p)
		wg.Go(func() { changingClient(t, s, c, p, r, changes) })
	}
	wg.Wait()
}

// segment holds the events between two replies to subscribe.
type segment struct {
	sub  *subscription
	from signal.Position // all matching events after it must be in ids; zero if unknown
	ids  []signal.Position
}

func changingClient(t *testing.T, s *service, c *client, principal *signal.Principal, r *rand.Rand, changes int) {
	seen, got := map[signal.Position]bool{}, map[string]bool{}
	now := &segment{sub: newSubscription(defaultChannels, nil).with(defaultChannels, principal.View)}
	segments := []*segment{now}
	read := func() (envelope, bool) {
		e, err := c.next()
		if err != nil {
			t.Errorf("read: %v", err)
			return e, false
		}
		if e.ID == "" {
			return e, true
		}
		p, _ := signal.ParsePosition(e.ID)
		ch, _ := parseChannel(e.Type)
		if seen[p] || !now.sub.channels.has(ch) {
			t.Errorf("%s %s: came before: %v", e.Type, e.ID, seen[p])
			return e, false
		}
		if n := len(now.ids); n > 0 && p.Compare(now.ids[n-1]) <= 0 {
			t.Errorf("%s came after %s", p, now.ids[n-1])
			return e, false
		}
		seen[p], got[e.ID] = true, true
		now.ids = append(now.ids, p)
		return e, true
	}
	for range changes {
		for range r.IntN(4) {
			s.journal.append(randomEvents(r, r.IntN(6))...)
			c.send(`{"action":"ping"}`) // answered even during a replay
			for {
				e, ok := read()
				if !ok {
					return
				}
				if e.Type == "pong" {
					break
				}
			}
		}
		sub, members := randomSubscription(r)
		next := &segment{sub: sub.with(channelsIn(sub), principal.View)}
		if n := len(now.ids); n > 0 && r.IntN(2) == 0 {
			next.from = now.ids[r.IntN(n)]
			members += `,"last_event_id":"` + next.from.String() + `"`
		}
		c.send(`{"action":"subscribe",` + members + `}`)
		for {
			e, ok := read()
			if !ok {
				return
			}
			if e.Type == "error" {
				t.Errorf("subscribe %s: %s", members, e.Data)
				return
			}
			if e.Type == "subscribed" {
				if !next.from.IsZero() && !strings.Contains(string(e.Data), `"complete":true`) {
					t.Errorf("reply %s", e.Data)
				}
				now = next
				segments = append(segments, now)
				break
			}
		}
	}
	s.wantSeenBy(principal, got)
	checkSegments(t, s, segments, seen)
}

// checkSegments checks that no event is missing.
func checkSegments(t *testing.T, s *service, segments []*segment, seen map[signal.Position]bool) {
	for i, now := range segments {
		if len(now.ids) == 0 {
			continue
		}
		from := now.from
		if from.IsZero() {
			from = now.ids[0]
		}
		s.wantSeen(seen, from, now.ids[len(now.ids)-1], now.sub, now.sub)
		if i+1 < len(segments) && len(segments[i+1].ids) > 0 {
			// Events that match both this and the next subscription are not lost in between.
			next := segments[i+1]
			s.wantSeen(seen, from, next.ids[len(next.ids)-1], now.sub, next.sub)
		}
	}
}

// wantSeen checks that all events that match both subscriptions were seen, after one
// position and up to another.
func (s *service) wantSeen(seen map[signal.Position]bool, from, to signal.Position, a, b *subscription) {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	for i := range s.journal.events {
		e := &s.journal.events[i]
		if e.Account != alice || e.Position.Compare(from) <= 0 || e.Position.Compare(to) > 0 || seen[e.Position] {
			continue
		}
		if f := newFrame(e, nil); f != nil && a.matches(f) && b.matches(f) {
			s.tb.Errorf("%s is missing between %s and %s", e.Position, from, to)
			return
		}
	}
}
