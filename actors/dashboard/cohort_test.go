package dashboard

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestAudienceFindsTheCohortsConcerned(t *testing.T) {
	t.Parallel()
	a := newAudience(alice, 0, nil)
	subs := map[string]*subscription{
		"all":      newSubscription([]channel{signalNew, agentStatus}, nil),
		"btc":      newSubscription([]channel{signalNew}, []string{"btc"}),
		"btc, eth": newSubscription([]channel{signalNew, signalClosed, agentStatus}, []string{"ETH", "BTC", "eth"}),
		"status":   newSubscription([]channel{agentStatus}, []string{"SOL"}),
	}
	for _, s := range subs {
		a.cohort(s, webSocket)
		if a.cohort(s.to(channelsIn(s)), webSocket) != a.cohort(s, webSocket) {
			t.Error("an equal subscription has another cohort")
		}
		if events := a.cohort(s, eventStream); events == a.cohort(s, webSocket) {
			t.Error("connections by two transports are one cohort")
		} else {
			a.drop(events)
		}
	}
	tests := []struct {
		f    frame
		want []string
	}{
		{frame{channel: signalNew, asset: assetOf("BTC")}, []string{"all", "btc", "btc, eth"}},
		{frame{channel: signalNew, asset: assetOf("ETH")}, []string{"all", "btc, eth"}},
		{frame{channel: signalNew, asset: assetOf("SOL")}, []string{"all"}},
		{frame{channel: signalClosed, asset: assetOf("BTC")}, []string{"btc, eth"}},
		{frame{channel: signalUpdated, asset: assetOf("BTC")}, nil},
		{frame{channel: agentStatus}, []string{"all", "btc, eth", "status"}},
		{frame{channel: systemNotification}, nil},
	}
	for _, test := range tests {
		got := map[*cohort]int{}
		a.concerned(&test.f, func(c *cohort) { got[c]++ })
		want := map[*cohort]int{}
		for _, name := range test.want {
			want[a.cohort(subs[name], webSocket)] = 1
			if !subs[name].matches(&test.f) {
				t.Errorf("%s does not match %+v", name, test.f)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%+v concerns %d cohorts, want %d", test.f, len(got), len(want))
		}
		for c, n := range got {
			if n != 1 || want[c] != 1 {
				t.Errorf("%+v: a cohort came %d times, want %d", test.f, n, want[c])
			}
		}
	}
	for _, s := range subs {
		a.drop(a.cohort(s, webSocket))
	}
	if len(a.cohorts)+len(a.singleAsset) > 0 || len(a.everyAsset[agentStatus]) > 0 {
		t.Error("the index still holds removed cohorts")
	}
}

func channelsIn(s *subscription) []channel {
	var list []channel
	for c := range heartbeat {
		if s.channels.has(c) {
			list = append(list, c)
		}
	}
	return list
}

// TestCohortLog checks that members that read at different speeds all get the bytes of
// all frames, while parts of the log are released and compacted.
func TestCohortLog(t *testing.T) {
	t.Parallel()
	for _, transport := range []transport{webSocket, eventStream} {
		testCohortLog(t, transport)
	}
}

func testCohortLog(t *testing.T, transport transport) {
	a := newAudience(alice, 0, nil)
	c := a.cohort(everything, transport)
	r := rand.New(rand.NewPCG(4, 2))
	w := newWriter(&Hub{o: Options{QueueMessages: 10, QueueBytes: 10}})
	var all []byte
	peers := make([]*peer, 4)
	got := make([][]byte, len(peers))
	for i := range peers {
		peers[i] = &peer{}
		c.join(peers[i])
	}
	compacted := false
	for range 3000 {
		for range r.IntN(3) {
			e := created(alice, "BTC")
			e.Data = []byte(`{"text":"` + strings.Repeat("x", r.IntN(2000)) + `"}`)
			frame := newFrame(&e, nil)
			c.append(frame)
			all = frame.appendTo(all, transport)
		}
		lag := 0
		for i, p := range peers {
			rest := c.behind(p)
			n := len(rest)
			if i == 0 {
				n = r.IntN(min(2000, n) + 1)
			}
			if i == 0 && r.IntN(300) == 0 {
				n = len(rest) // sometimes it catches up
			}
			got[i] = append(got[i], rest[:n]...)
			w.advance(p, fromLog, n)
			if start := c.start(p.frame); p.offset < start || p.frame < c.endFrame() && p.offset >= c.start(p.frame+1) {
				t.Fatalf("offset %d is not in frame %d", p.offset, p.frame)
			}
			if p.offset < c.end() {
				lag++
			}
		}
		base := c.base
		if lag == 0 {
			c.release()
		} else {
			c.compact()
			compacted = compacted || c.base != base
		}
		for i := range peers {
			end := max(0, len(got[i])-100)
			if i > 0 && len(got[i]) != len(all) || string(all[end:len(got[i])]) != string(got[i][end:]) {
				t.Fatalf("member %d got something else", i)
			}
		}
	}
	for i := range peers {
		if string(got[i]) != string(all[:len(got[i])]) {
			t.Errorf("member %d got something else", i)
		}
	}
	if !compacted {
		t.Error("the log was never cut off")
	}
}

func TestFrames(t *testing.T) {
	t.Parallel()
	for _, length := range []int{0, 10, 125, 126, 1000, 65_535, 65_536, 100_000} {
		b := webSocket.append(nil, make([]byte, length), at(1))
		if b[0] != finalBit|opText || payloadLength(b) != length {
			t.Errorf("frame of %d bytes: header % x", length, b[:10])
		}
	}
	tests := []struct {
		name string
		data string
		want string
	}{
		{"empty object", `{}`, `{"created_at":"1970-01-01T00:00:00.005Z"}`},
		{"space after it", "{\"a\":1}\n ", `{"a":1,"created_at":"1970-01-01T00:00:00.005Z"}`},
		{"nothing", ``, `null`},
	}
	for _, test := range tests {
		e := signal.Event{Type: signal.SignalCreated, Position: at(5), Data: []byte(test.data)}
		f := newFrame(&e, nil)
		var got envelope
		if err := json.Unmarshal(f.text, &got); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if d := cmp.Diff(test.want, string(got.Data)); d != "" {
			t.Errorf("%s: %s", test.name, d)
		}
	}
	e := signal.Event{Type: signal.AgentStarted, Agent: "a\"b\n", Run: "é"}
	want := `{"agent_id":"a\"b\n","status":"running","run_id":"é"}`
	if f := newFrame(&e, nil); !strings.Contains(string(f.text), want) {
		t.Errorf("frame %s, want %s", f.text, want)
	}
}
