package dashboard

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// begun connects as alice with a subscription in the handshake.
func (s *service) begun(query string) *client {
	s.tb.Helper()
	return s.dialQuery(principalOf(alice), websocket.DefaultDialer, query)
}

// TestAConnectionBeginsWithTheSubscriptionOfItsHandshake: its reply, the welcome, what was missed,
// then live events, of which some were published while the missed ones were searched for.
func TestAConnectionBeginsWithTheSubscriptionOfItsHandshake(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.RingFrames = 2 }) // a resume reads the log
	p := s.journal.append(created(alice, "BTC"), created(alice, "ETH"), created(alice, "BTC"), statusEvent())
	during := s.duringASearch(created(alice, "BTC"), created(alice, "ETH"))
	during.armed.Store(true)
	c := s.begun("channels=signal.new,agent.status&assets=btc,SOL&last_event_id=" + p[0].String())
	e := c.want("subscribed")
	want := `{"ref":null,"channels":["signal.new","agent.status"],"filters":{"assets":["btc","SOL"]},"denied":[],` +
		`"resumed":{"replayed":3,"complete":true}}`
	if string(e.Data) != want {
		t.Errorf("got  %s\nwant %s", e.Data, want)
	}
	c.wantPart(c.want("welcome"), `"channels":["signal.new","agent.status"]`)
	c.wantEvents("signal.new", p[2])
	c.wantEvents("agent.status", p[3])
	c.wantEvents("signal.new", (<-during.published)[0])
	c.wantEvents("signal.new", s.journal.append(created(alice, "ETH"), created(alice, "sol"))[1])
	c.wantNothing()
}

// TestHandshakesWithoutAResume begin with live events of the subscription, and a resume that is not
// possible is reported as such.
func TestHandshakesWithoutAResume(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	s.journal.append(created(alice, "BTC"))
	for query, want := range map[string]string{
		"last_event_id=": `"channels":["signal.new","agent.status","system.notification"],"filters":{"assets":[]},` +
			`"denied":[],"resumed":null}`,
		"channels=":                  `"channels":[],"filters":{"assets":[]},"denied":[],"resumed":null}`,
		"assets=BTC,%20standing+oak": `"filters":{"assets":["BTC","standing oak"]},"denied":[],"resumed":null}`,
		"last_event_id=1795253400000-0&channels=market.price&assets=BTC": `"resumed":{"replayed":0,"complete":false}}`,
		"agents=seo,trading&strategies=momentum&directions=long&min_confidence=0.4&min_expected_r_net=-1e-1": `"filters":` +
			`{"assets":[],"agents":["seo","trading"],"strategies":["momentum"],"directions":["long"],"min_confidence":0.4,` +
			`"min_expected_r_net":-0.1},"denied":[],"resumed":null}`,
	} {
		c := s.begun(query)
		c.wantPart(c.want("subscribed"), want)
		c.want("welcome")
		c.wantNothing()
	}
	c := s.dialQuery(&signal.Principal{Account: alice, Scopes: signal.ScopeSet(0)}, websocket.DefaultDialer,
		"channels=signal.new,system.notification")
	c.wantPart(c.want("subscribed"), `"channels":["system.notification"],"filters":{"assets":[]},"denied":["signal.new"]`)
	c.wantPart(c.want("welcome"), `"channels":["system.notification"]`)
}

// TestFaultsOfAHandshakeAreThoseOfASubscribe, with the name of the parameter.
func TestFaultsOfAHandshakeAreThoseOfASubscribe(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("A,", signal.MaxFilterAssets) + "A"
	for query, want := range map[string]map[string]string{
		"channels=signals.new": {"channels": `no channel "signals.new" (did you mean signal.new?): must be one of: ` +
			strings.Join(channelNames[:], ", ")},
		"assets=" + many:        {"assets": "assets must have at most 100 assets"},
		"assets=BTC,,ETH":       {"assets": "an asset must have 1 to 64 characters"},
		"channels=market.price": {"assets": "market.price needs assets, such as BTC: it has only named assets"},
		"last_event_id=yesterday&min_confidence=NaN": {
			"last_event_id":  `last_event_id "yesterday" is not the id of a message, such as 1795253400000-0`,
			"min_confidence": "min_confidence must be a number from 0 to 1"},
		"min_confidence=null":    {"min_confidence": "min_confidence must be a number from 0 to 1"},
		"min_expected_r_net=0x1": {"min_expected_r_net": "min_expected_r_net must be a number from -100 to 100"},
		"agents=tradin": {"agents": `no value of agents "tradin" (did you mean trading?): must be one of: ` +
			"trading, weather, seo"},
		"directions=long,long":    {"directions": `directions has "long" more than once`},
		"channels=heartbeat&x=no": {},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		ReadSubscription(nil, func(name string) (string, bool) { return values.Get(name), values.Has(name) },
			func(name, detail string) { got[name] = detail })
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", query, d)
		}
	}
}

// TestNothingNewerComesBeforeAReplay: what is published while a later subscribe searches for what was
// missed follows the replay, and comes also if the resume is not possible.
func TestNothingNewerComesBeforeAReplay(t *testing.T) {
	t.Parallel()
	s := newService(t, func(o *Options) { o.RingFrames = 3 })
	during := s.duringASearch(created(alice, "BTC"))
	past := s.journal.recordPast(created(alice, "BTC"), created(alice, "BTC"), created(bob, "BTC"))
	c := s.welcomed(principalOf(alice))
	during.armed.Store(true)
	c.ask(`{"action":"subscribe","channels":["signal.new"],`+after1(past[0])+`}`, "subscribed")
	c.wantEvents("signal.new", past[1], (<-during.published)[0])
	c.wantNothing()
	during.armed.Store(true)
	unknown := signal.Position{MS: past[0].MS - 1}
	c.wantPart(c.ask(`{"action":"subscribe",`+after1(unknown)+`}`, "subscribed"), `"complete":false`)
	c.wantEvents("signal.new", <-during.published...)
	c.wantNothing()
}

// interruption publishes events during the next search for missed ones after armed is set.
type interruption struct {
	armed     atomic.Bool
	published chan []signal.Position
}

// duringASearch is called before the first connection.
func (s *service) duringASearch(events ...signal.Event) *interruption {
	x := &interruption{published: make(chan []signal.Position, 1)}
	s.journal.onRead = func(int) error {
		if x.armed.CompareAndSwap(true, false) {
			x.published <- s.journal.append(events...)
		}
		return nil
	}
	return x
}

// TestClientsThatKnowOnlyTheNewestID connect and break off again and again while events are
// published, some of them inside a replay. In the end each has every event, each once and in order.
func TestClientsThatKnowOnlyTheNewestID(t *testing.T) {
	t.Parallel()
	for name, ring := range map[string]int{"from the ring": 65_536, "from the log": 300} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, func(o *Options) { o.RingFrames = ring })
			s.principal = principalOf(alice)
			first := s.journal.recordPast(created(alice, "BTC"))[0]
			done := make(chan struct{})
			var clients, publishing sync.WaitGroup
			publishing.Go(func() {
				for r := rand.New(rand.NewPCG(5, 5)); ; {
					select {
					case <-done:
						return
					default:
					}
					s.journal.append(randomEvents(r, 1+r.IntN(5))...)
					time.Sleep(500 * time.Microsecond) // bounds the log; nothing depends on it
				}
			})
			sub := newSubscription([]channel{signalNew, signalClosed}, testAssets[:2])
			const sessions = 40
			got := make([][]string, 6)
			for i := range got {
				clients.Go(func() {
					r, last := rand.New(rand.NewPCG(17, uint64(i))), first.String()
					for range sessions {
						last = s.shortSession(r.IntN(60), last, &got[i])
						time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond) // misses more; nothing depends on it
					}
				})
			}
			clients.Wait()
			close(done)
			publishing.Wait()
			want := s.journal.matching(alice, sub, first)[1:] // without the first
			for i := range got {
				s.shortSession(-1, slices.Concat([]string{first.String()}, got[i])[len(got[i])], &got[i])
				if d := cmp.Diff(want, got[i], cmpopts.EquateEmpty()); d != "" {
					t.Fatalf("client %d lacks events or has them twice (-want +got):\n%.2000s", i, d)
				}
			}
		})
	}
}

// shortSession resumes after last, adds the ids of n events at most to got and breaks off without a
// close frame. It returns the last id. With a negative n nothing is published any more, and it takes the
// whole replay.
func (s *service) shortSession(n int, last string, got *[]string) string {
	ws, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.server.URL, "http")+
		"?channels=signal.new,signal.closed&assets=BTC,ETH&last_event_id="+last, http.Header{})
	if err != nil {
		s.tb.Error(err)
		return last
	}
	defer ws.Close()
	c := &client{tb: s.tb, ws: ws}
	e, err := c.next()
	if err != nil || e.Type != "subscribed" || !strings.Contains(string(e.Data), `"complete":true`) {
		s.tb.Errorf("begins with %s %s, %v", e.Type, e.Data, err)
		return last
	}
	if n < 0 {
		var reply subscribedData
		if err := json.Unmarshal(e.Data, &reply); err != nil {
			s.tb.Error(err)
			return last
		}
		n = reply.Resumed.Replayed
	}
	for n > 0 {
		e, err := c.next()
		if err != nil {
			s.tb.Error(err)
			return last
		}
		if e.ID != "" {
			*got = append(*got, e.ID)
			last = e.ID
			n--
		}
	}
	return last
}

// FuzzReadSubscription compares with the subscribe message of the same values, where they can stand in a list.
func FuzzReadSubscription(f *testing.F) {
	f.Add("signal.new,signal.closed", "BTC, ETH", "1795253400000-0", "0.4")
	f.Add("", "\xff,\"", "-", "1e999")
	f.Add("market.price", "", "", "nan")
	f.Fuzz(func(t *testing.T, channels, assets, last, least string) {
		given := map[string]string{"channels": channels, "assets": assets, "last_event_id": last, "min_confidence": least}
		bad := 0
		s := ReadSubscription(nil, func(name string) (string, bool) {
			value, ok := given[name]
			return value, ok
		}, func(name, detail string) {
			if bad++; detail == "" || len(detail) > 2000 {
				t.Errorf("fault of %s: %q", name, detail)
			}
		})
		if bad > 0 {
			return
		}
		filters := map[string]any{}
		if assets != "" {
			filters["assets"] = s.message.filter.Assets
		}
		if least != "" {
			filters["min_confidence"] = s.message.filter.MinConfidence
		}
		text, err := json.Marshal(map[string]any{"action": "subscribe", "channels": names(s.message.channels),
			"filters": filters, "last_event_id": s.message.lastEventID})
		if err != nil {
			t.Fatal(err)
		}
		want, fault := decodeMessage(text, nil)
		if fault != nil {
			t.Fatalf("%s: %v", text, fault)
		}
		if d := cmp.Diff(want, s.message, cmp.AllowUnexported(message{}), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-message +handshake):\n%s", text, d)
		}
	})
}
