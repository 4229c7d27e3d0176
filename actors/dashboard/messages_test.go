package dashboard

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentsignal/agentsignal/actors/signal"
)

func TestDecodeMessage(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	many := `"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1,"a":1,"b":1,"c":1,"d":1,"e":1,"f":1`
	allowUnexported := cmp.AllowUnexported(message{})
	tests := []struct {
		text string
		want message
		code string // of the fault; empty: none
	}{
		{`{"action":"ping"}`, message{action: actionPing}, ""},
		{`{"action":"ping","ref":""}`, message{action: actionPing, ref: text("")}, ""},
		{`{"action":"ping","ref":null}`, message{action: actionPing}, ""},
		{`{"action":"auth","api_key":"k"}`, message{action: actionAuth, token: "k"}, ""},
		{`{"action":"auth","api_key":null,"token":"k","ref":"r"}`,
			message{action: actionAuth, token: "k", ref: text("r")}, ""},
		{`{"action":"subscribe"}`, message{action: actionSubscribe}, ""},
		{`{"action":"subscribe","channels":[],"filters":{},"last_event_id":"1-0"}`,
			message{action: actionSubscribe, named: true, lastEventID: text("1-0")}, ""},
		{`{"action":"subscribe","channels":["signal.new"],"filters":{"assets":["BTC"]}}`,
			message{action: actionSubscribe, named: true, channels: []channel{signalNew},
				filter: signal.Filter{Assets: []string{"BTC"}}}, ""},
		{`{"action":"subscribe","filters":{"agents":["seo","trading"],"strategies":["breakout"],"directions":["short"],` +
			`"min_confidence":0.4,"min_expected_r_net":-1e-1}}`,
			message{action: actionSubscribe, filter: signal.Filter{
				Agents:          []signal.AgentID{"seo", "trading"},
				Strategies:      []string{"breakout"},
				Directions:      []signal.Direction{signal.Short},
				MinConfidence:   new(.4),
				MinExpectedRNet: new(-.1),
			}}, ""},
		{`{"action":"subscribe","filters":{"agents":[],"strategies":null,"min_confidence":null}}`,
			message{action: actionSubscribe}, ""},
		{`{"action":"subscribe","channels":null,"filters":null,"last_event_id":null}`,
			message{action: actionSubscribe}, ""},
		{`{"action":"subscribe","filters":{"assets":null}}`, message{action: actionSubscribe}, ""},
		{`{"action":"unsubscribe","channels":["agent.status","agent.status"]}`,
			message{action: actionUnsubscribe, named: true, channels: []channel{agentStatus}}, ""},

		{``, message{}, codeInvalidMessage},
		{`null`, message{}, codeInvalidMessage},
		{`[]`, message{}, codeInvalidMessage},
		{`{} {}`, message{}, codeInvalidMessage},
		{`{}`, message{}, codeInvalidMessage},
		{`{"Action":"ping"}`, message{}, codeInvalidMessage},
		{`{"action":null}`, message{}, codeInvalidMessage},
		{`{"action":1,"ref":"r"}`, message{ref: text("r")}, codeInvalidMessage},
		{`{"action":"PING"}`, message{}, codeUnknownAction},
		{`{"action":"ping","ref":7}`, message{action: actionPing}, codeInvalidMessage},
		{`{"action":"ping","ref":"` + strings.Repeat("é", 65) + `"}`, message{action: actionPing}, codeInvalidMessage},
		{`{"action":"ping","channels":[]}`, message{action: actionPing}, codeInvalidMessage},
		{`{"action":"auth"}`, message{action: actionAuth}, codeInvalidMessage},
		{`{"action":"auth","api_key":""}`, message{action: actionAuth}, codeInvalidMessage},
		{`{"action":"auth","api_key":"k","filters":{}}`, message{action: actionAuth, token: "k"}, codeInvalidMessage},
		{`{"action":"subscribe","channels":"signal.new"}`, message{action: actionSubscribe}, codeInvalidMessage},
		{`{"action":"subscribe","channels":[null]}`, message{action: actionSubscribe}, codeInvalidMessage},
		{`{"action":"subscribe","channels":["signal"]}`, message{action: actionSubscribe}, codeUnknownChannel},
		{`{"action":"subscribe","filters":[]}`, message{action: actionSubscribe}, codeInvalidFilter},
		{`{"action":"subscribe","filters":{"assets":"BTC"}}`, message{action: actionSubscribe}, codeInvalidFilter},
		{`{"action":"subscribe","filters":{"assets":[""]}}`, message{action: actionSubscribe}, codeInvalidFilter},
		{`{"action":"subscribe","filters":{"assets":[" BTC"]}}`, message{action: actionSubscribe}, codeInvalidFilter},
		{`{"action":"subscribe","filters":{"assets":["B\u0000C"]}}`,
			message{action: actionSubscribe}, codeInvalidFilter},
		{`{"action":"subscribe","filters":{"assets":["` + strings.Repeat("x", 65) + `"]}}`,
			message{action: actionSubscribe}, codeInvalidFilter},
		{`{"action":"subscribe","filters":{"assets":["a"` + strings.Repeat(`,"a"`, 100) + `]}}`,
			message{action: actionSubscribe}, codeInvalidFilter},
		{`{"action":"subscribe","last_event_id":1795253400000}`, message{action: actionSubscribe}, codeInvalidMessage},
		{`{"action":"subscribe","last_event_id":"abc"}`, message{action: actionSubscribe}, codeInvalidMessage},
		{`{"action":"subscribe","last_event_id":""}`, message{action: actionSubscribe}, codeInvalidMessage},
		{`{"action":"subscribe","last_event_id":"-1-0"}`, message{action: actionSubscribe}, codeInvalidMessage},
		{`{"action":"subscribe","resume":"x"}`, message{action: actionSubscribe}, codeInvalidMessage},
		{`{"action":"unsubscribe","filters":{}}`, message{action: actionUnsubscribe}, codeInvalidMessage},
		{`{"action":"ping","action":"ping","ref":"r"}`, message{}, codeInvalidMessage},
		{`{"ref":"r","action":"ping","ref":"r"}`, message{ref: text("r")}, codeInvalidMessage},
		{`{"action":"subscribe","channels":[],"channels":null}`, message{}, codeInvalidMessage},
		{`{"action":"subscribe","channels":[],"ch\u0061nnels":[]}`, message{}, codeInvalidMessage},
		{`{"action":"subscribe","filters":{"assets":[],"assets":[]}}`,
			message{action: actionSubscribe}, codeInvalidFilter},
		{`{"action":"ping"` + strings.Repeat(`,"":1`, 2) + `}`, message{}, codeInvalidMessage},
		{`{"action":"ping","ref":"r",` + many + `}`, message{ref: text("r")}, codeInvalidMessage},
	}
	for _, test := range tests {
		got, fault := decodeMessage([]byte(test.text), nil)
		code := ""
		if fault != nil {
			code = fault.code
		}
		if code != test.code {
			t.Errorf("%s: code %q, want %q", test.text, code, test.code)
		}
		if d := cmp.Diff(test.want, got, allowUnexported); d != "" {
			t.Errorf("%s: %s", test.text, d)
		}
	}
	if _, f := decodeMessage([]byte(`{"action":"auth","api_key":"k","token":"l"}`), nil); f == nil {
		t.Error("two credentials are accepted")
	}
	wantFaults(t, map[string]string{
		`{"action":"ping","x":1,"x":1}`:        `member "x" is given more than once`,
		`{"action":"ping",` + many + `,"g":1}`: "an object must not have more than 16 members",
	})
}

// wantFaults checks that decodeMessage refuses each text with its message.
func wantFaults(t *testing.T, messages map[string]string) {
	t.Helper()
	for text, want := range messages {
		if _, f := decodeMessage([]byte(text), nil); f == nil || f.message != want {
			t.Errorf("%s: %v, want %s", text, f, want)
		}
	}
}

// An answer that refuses a value lists the allowed ones.
func TestFaultsListWhatIsAllowed(t *testing.T) {
	t.Parallel()
	const actions = "must be one of: auth, subscribe, unsubscribe, ping"
	const channels = "signal.new, signal.updated, signal.closed, agent.status, system.notification, market.price, heartbeat"
	const object = `a message must be one JSON object such as {"action":"subscribe","channels":["signal.new"]}`
	const login = "an API key, or an access token from login"
	wantFaults(t, map[string]string{
		`{"type":"subscribe"}`:        "action is required and " + actions,
		`{"action":7}`:                "action is required and " + actions,
		`{"action":"subscrbe"}`:       `no action "subscrbe" (did you mean subscribe?): ` + actions,
		`{"action":"nap"}`:            `no action "nap": ` + actions,
		`{"action":"ping","reff":""}`: `no member "reff" (did you mean ref?): must be one of: action, ref`,
		`{"action":"subscribe","chanels":[]}`: `no member "chanels" (did you mean channels?): ` +
			"must be one of: action, ref, channels, filters, last_event_id",
		`{"action":"subscribe","assets":["BTC"]}`: `assets belongs in filters: ` +
			`{"action": "subscribe", "filters": {"assets": …}}`,
		`{"action":"subscribe","min_confidence":0.4}`: `min_confidence belongs in filters: ` +
			`{"action": "subscribe", "filters": {"min_confidence": …}}`,
		`{"action":"subscribe","asset":["BTC"]}`: `no member "asset": assets belongs in filters: ` +
			`{"action": "subscribe", "filters": {"assets": …}}`,
		`{"action":"subscribe","channels":["signals.new"]}`: `no channel "signals.new" (did you mean signal.new?): ` +
			"must be one of: " + channels,
		`{"action":"subscribe","filters":{"asset":["BTC"]}}`: `no filter "asset" (did you mean assets?): ` +
			"must be one of: assets, agents, strategies, directions, min_confidence, min_expected_r_net",
		`{"action":"subscribe","last_event_id":"abc"}`: `last_event_id "abc" is not the id of a message, ` +
			"such as 1795253400000-0",
		`{"action":"subscribe","last_event_id":5}`: "last_event_id must be the id of a message as a string, " +
			`such as "1795253400000-0"`,
		`{"action":"subscribe","channels":"signal.new"}`: "channels must be an array of some of: " + channels,
		`{"action":"unsubscribe","channels":[null]}`:     "channels must be an array of some of: " + channels,
		`{"action":"subscribe","filters":[]}`:            `filters must be an object such as {"assets":["BTC"]}`,
		`{"action":"subscribe","filters":{"assets":"BTC"}}`: "filters.assets must be an array of assets " +
			`such as ["BTC"]`,
		`{"action":"subscribe","filters":{"agents":["tradin"]}}`: `no value of agents "tradin" (did you mean trading?): ` +
			"must be one of: trading, weather, seo",
		`{"action":"subscribe","filters":{"strategies":["momentum","momentum"]}}`: "filters.strategies has " +
			`"momentum" more than once`,
		`{"action":"subscribe","filters":{"directions":"long"}}`: "filters.directions must be an array of some of: " +
			"long, short",
		`{"action":"subscribe","filters":{"min_confidence":1.01}}`: "filters.min_confidence must be a number " +
			"from 0 to 1",
		`{"action":"subscribe","filters":{"min_confidence":"0.4"}}`: "filters.min_confidence must be a number " +
			"from 0 to 1",
		`{"action":"subscribe","filters":{"min_expected_r_net":-101}}`: "filters.min_expected_r_net must be a number " +
			"from -100 to 100",
		`{"action":"subscribe","filters":{"assets":["BTC "]}}`: "an asset must have no control characters " +
			"and no space at its ends",
		`{"action":"auth"}`:             "api_key or token is required: " + login,
		`{"action":"auth","api_key":7}`: "api_key must be a credential as a string: " + login,
		`{"action":"auth","token":""}`:  "token must be a credential as a string: " + login,
		`subscribe`:                     object,
		`[]`:                            object,
	})
}

func FuzzDecodeMessage(f *testing.F) {
	f.Add(`{"action":"subscribe","channels":["signal.new"],"filters":{"assets":["BTC"]},` +
		`"last_event_id":"1-0","ref":"a"}`)
	f.Add(`{"action":"subscribe","filters":{"agents":["trading"],"strategies":["momentum"],"directions":["long"],` +
		`"min_confidence":0.4,"min_expected_r_net":-1e1}}`)
	f.Add(`{"action":"auth","token":"x"}`)
	f.Add(`{"action":"unsubscribe","channels":[]}`)
	f.Add(`{"action":"nap","ref":"\ud800"}`)
	f.Add(` {"action" : "ping" , "ref" :"\"},{" } `)
	f.Fuzz(func(t *testing.T, text string) {
		var reference map[string]json.RawMessage
		if list, problem := decodeObject([]byte(text)); problem == "" {
			_ = json.Unmarshal([]byte(text), &reference) // stays nil unless text is an object
			got := map[string]json.RawMessage{}
			for _, m := range list {
				got[m.name] = m.value
			}
			if d := cmp.Diff(reference, got, cmpopts.EquateEmpty()); d != "" || (list == nil) != (reference == nil) {
				t.Fatalf("members of %q: %s", text, d)
			}
		}
		m, fault := decodeMessage([]byte(text), nil)
		if fault == nil && m.action == actionNone {
			t.Fatal("a message without an action is accepted")
		}
		if m.ref != nil && utf8.RuneCountInString(*m.ref) > maxRefCharacters {
			t.Fatal("a long ref is echoed")
		}
		if fault != nil {
			reply := encodeReply("error", errorData{m.ref, fault.code, fault.message}, at(0).Time())
			if len(reply) > 2000 || !json.Valid(reply) {
				t.Fatalf("reply %q", reply)
			}
			return
		}
		s := filtered(m.channels, m.filter.Assets, &m.filter)
		if len(s.named.list) > signal.MaxFilterAssets || s.channels.has(heartbeat) {
			t.Fatalf("subscription %+v", s)
		}
	})
}

// payloadLength reads the header of a frame to a client.
func payloadLength(b []byte) int {
	switch n := b[1]; n {
	case 126:
		return int(b[2])<<8 | int(b[3])
	case 127:
		return int(b[6])<<24 | int(b[7])<<16 | int(b[8])<<8 | int(b[9])
	default:
		return int(n)
	}
}
