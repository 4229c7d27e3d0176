package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
)

// A step of a connection: what the service does on it.
type step func(t *testing.T, ws *websocket.Conn)

func say(messages ...string) step {
	return func(_ *testing.T, ws *websocket.Conn) {
		for _, m := range messages {
			_ = ws.WriteMessage(websocket.TextMessage, []byte(m))
		}
	}
}

func hangUpStream(_ *testing.T, ws *websocket.Conn) { ws.NetConn().Close() }

func closeWith(code int, reason string) step {
	return func(_ *testing.T, ws *websocket.Conn) {
		_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(time.Minute))
	}
}

// event returns a message of a signal whose ID is that of the event.
func event(kind, id, asset string) string {
	return fmt.Sprintf(`{"type":%q,"id":%q,"data":{"signal_id":%[2]q,"asset":%[3]q,"confidence":0.5},`+
		`"timestamp":"2026-11-21T09:30:00.000Z"}`, kind, id, asset)
}

const subscribedNew = `{"type":"subscribed","data":{"channels":["signal.new"],"denied":[],"resumed":null}}`

func resumed(complete bool) string {
	const form = `{"type":"subscribed","data":{"channels":["signal.new"],"resumed":{"replayed":1,"complete":%t}}}`
	return fmt.Sprintf(form, complete)
}

// stream returns a stream of a service that plays one of the connections after the other, and the
// queries of its handshakes and pauses.
func stream(t *testing.T, connections ...[]step) (*Stream, *record[url.Values], *record[time.Duration]) {
	t.Helper()
	subscriptions, pauses, opened := &record[url.Values]{}, &record[time.Duration]{}, &record[bool]{}
	up := websocket.Upgrader{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ws/dashboard" || r.Header.Get("Authorization") != "Bearer key" {
			t.Errorf("%s with %v is requested", r.URL, r.Header)
		}
		n := opened.add(true)
		if n > len(connections) {
			w.Header().Set("Retry-After", "9")
			http.Error(w, `{"code":"account_gone","detail":"no more"}`, http.StatusUnauthorized)
			return
		}
		subscriptions.add(r.URL.Query())
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		for _, f := range connections[n-1] {
			f(t, ws)
		}
		_, _, _ = ws.ReadMessage() // until the client has gone
	}))
	t.Cleanup(s.Close)
	c := impatient(t, s.URL, pauses)
	return &Stream{Client: c, Channels: []string{"signal.new"}, Filters: Filters{Assets: []string{"btcusdt"}}},
		subscriptions, pauses
}

// follow returns the types and IDs of the messages until the stream ends, and its end.
func follow(t *testing.T, s *Stream) ([]string, error) {
	var got []string
	err := s.Follow(t.Context(), func(m *Message) error {
		line := strings.TrimSpace(m.Type + " " + m.ID)
		if m.Subscribed != nil && m.Subscribed.Gap {
			line += " gap"
		}
		got = append(got, line)
		return nil
	})
	return got, err
}

// Each connection begins with the subscription and the newest event that was handled, in the order in
// which they come.
func TestStreamResumesAfterTheNewestEvent(t *testing.T) {
	t.Parallel()
	s, subscriptions, pauses := stream(t,
		[]step{say(subscribedNew, `{"type":"welcome","data":{}}`, event("signal.new", "4-0", "BTC")), hangUpStream},
		[]step{say(resumed(true), event("signal.new", "5-0", "BTC"),
			`{"type":"of a later version","id":"6-0","data":[]}`), closeWith(1001, "going away")},
		[]step{hangUpStream}, // before it is subscribed
		[]step{say(resumed(true), event("signal.new", "9-0", "BTC")), hangUpStream}, // within the replay
		[]step{say(resumed(true), event("signal.new", "11-0", "BTC")), closeWith(4008, "slow consumer")},
		[]step{say(resumed(false), event("signal.new", "30-0", "BTC")), closeWith(4000, "no sign of life")},
	)
	got, err := follow(t, s)
	want := []string{"subscribed", "welcome", "signal.new 4-0", "subscribed", "signal.new 5-0", "of a later version 6-0",
		"subscribed", "signal.new 9-0", "subscribed", "signal.new 11-0", "subscribed gap", "signal.new 30-0"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	var after []string
	for _, query := range subscriptions.all() {
		after = append(after, query.Get("last_event_id"))
		query.Del("last_event_id")
		if d := cmp.Diff(url.Values{"channels": {"signal.new"}, "assets": {"btcusdt"}}, query); d != "" {
			t.Error(d)
		}
	}
	if want := []string{"", "4-0", "6-0", "6-0", "9-0", "11-0"}; !slices.Equal(after, want) {
		t.Errorf("resumed after %q, want %q", after, want)
	}
	if p, ok := errors.AsType[*Problem](err); !ok || p.Status != 401 || s.LastID != "30-0" || len(pauses.all()) != 6 {
		t.Errorf("ended with %v at %s after %v", err, s.LastID, pauses.all())
	}
}

func TestStreamAsksForAllFilters(t *testing.T) {
	t.Parallel()
	s, subscriptions, _ := stream(t, []step{say(subscribedNew), closeWith(4403, "forbidden")})
	s.Channels = []string{}
	s.Filters = Filters{Assets: []string{"BTC", "standing desk"}, Agents: []string{"trading"},
		Strategies: []string{"momentum", "breakout"}, Directions: []string{"long"}, MinConfidence: new(.4),
		MinExpectedRNet: new(-1e-9)}
	_, _ = follow(t, s)
	want := url.Values{"channels": {""}, "assets": {"BTC,standing desk"}, "agents": {"trading"},
		"strategies": {"momentum,breakout"}, "directions": {"long"}, "min_confidence": {"0.4"},
		"min_expected_r_net": {"-1e-09"}, "last_event_id": {""}}
	if d := cmp.Diff(want, subscriptions.all()[0]); d != "" {
		t.Error(d)
	}
	s, subscriptions, _ = stream(t)
	s.Filters.Assets = []string{"BTC,ETH"}
	if _, err := follow(t, s); err == nil || !strings.Contains(err.Error(), `filter assets: "BTC,ETH" has a comma`) ||
		len(subscriptions.all()) > 0 {
		t.Errorf("a name with a comma: %v", err)
	}
}

// Without any event there is no position to resume after, and an event may have been missed.
func TestStreamReportsWhatItCannotKnow(t *testing.T) {
	t.Parallel()
	s, _, _ := stream(t, []step{say(subscribedNew), hangUpStream}, []step{say(subscribedNew), hangUpStream})
	if got, _ := follow(t, s); !slices.Equal(got, []string{"subscribed", "subscribed gap"}) {
		t.Errorf("got %q", got)
	}
	s, _, _ = stream(t, []step{say(resumed(false)), hangUpStream})
	s.LastID = "1-0" // of an earlier stream
	if got, _ := follow(t, s); !slices.Equal(got, []string{"subscribed gap"}) {
		t.Errorf("got %q", got)
	}
}

func TestStreamEnds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		steps []step
		want  string
	}{
		"a revoked key":     {[]step{say(subscribedNew), closeWith(4401, "unauthenticated")}, "(4401): unauthenticated"},
		"a removed account": {[]step{closeWith(4403, "forbidden")}, "(4403): forbidden"},
	} {
		s, subscriptions, _ := stream(t, row.steps)
		s.Interrupted = func(err error, _ time.Duration) { t.Errorf("%s: connects again after %v", name, err) }
		if _, err := follow(t, s); err == nil || !strings.Contains(err.Error(), row.want) || len(subscriptions.all()) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, _, _ := stream(t, []step{say(subscribedNew)})
	own := errors.New("enough")
	if err := s.Follow(t.Context(), func(*Message) error { return own }); !errors.Is(err, own) {
		t.Errorf("the caller's error becomes %v", err)
	}
	s, _, _ = stream(t, []step{say(subscribedNew)})
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.Follow(ctx, func(*Message) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a stream that is ended returns %v", err)
	}
}

func TestFiltersAreThoseOfTheService(t *testing.T) {
	t.Parallel()
	half, low := .5, -.1
	base := Signal{Asset: "BTC", Agent: "trading", Strategy: "momentum", Direction: "long", Confidence: .5}
	base.Metadata.ExpectedRNet = &low
	closed := base
	closed.Status, closed.Confidence, closed.Initial = "open", .9, .4
	content := Signal{Asset: "standing desk", Confidence: .9}
	for _, row := range []struct {
		filters Filters
		s       Signal
		want    bool
	}{
		{Filters{}, base, true},
		{Filters{Assets: []string{"ETH", "btc/usdt"}, Agents: []string{"trading"}, Strategies: []string{"momentum"},
			Directions: []string{"long"}, MinConfidence: &half, MinExpectedRNet: &low}, base, true},
		{Filters{Assets: []string{"ETH"}}, base, false},
		{Filters{Agents: []string{"seo"}}, base, false},
		{Filters{Strategies: []string{"breakout"}}, base, false},
		{Filters{Directions: []string{"short"}}, base, false},
		{Filters{MinConfidence: &half}, closed, false}, // by its confidence at creation
		{Filters{MinExpectedRNet: &half}, base, false},
		{Filters{MinExpectedRNet: &low}, content, false},
	} {
		if got := row.filters.Passes(&row.s); got != row.want {
			t.Errorf("%+v passes %+v: %v", row.filters, row.s, got)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(event("signal.new", "1-0", "BTC")))
	f.Add([]byte(resumed(false)))
	f.Add([]byte(`{"type":"error","data":null}`))
	f.Add([]byte(`{"type":"market.price","data":{"price":1e999}}`))
	f.Add([]byte(`{"type":"heartbeat","timestamp":"2026-11-21T09:30:30.000Z"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := readMessage(text)
		if err == nil && (m.Type == "" || m.Type == "subscribed" && m.Subscribed == nil ||
			m.Type == "signal.closed" && m.Signal == nil) {
			t.Errorf("%q is read as %#v", text, m)
		}
	})
}
