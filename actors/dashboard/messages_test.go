package dashboard

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeMessage(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
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
		{`{"action":"auth","api_key":null,"token":"k","ref":"r"}`, message{action: actionAuth, token: "k", ref: text("r")}, ""},
		{`{"action":"subscribe"}`, message{action: actionSubscribe}, ""},
		{`{"action":"subscribe","channels":[],"filters":{},"last_event_id":"1-0"}`, message{action: actionSubscribe, named: true, lastEventID: text("1-0")}, ""},
		{`{"action":"subscribe","channels":["signal.new"],"filters":{"assets":["BTC"]}}`,
			message{action: actionSubscribe, named: true, channels: []channel{signalNew}, assets: []string{"BTC"}}, ""},
		{`{"action":"subscribe","channels":null,"filters":null,"last_event_id":null}`, message{action: actionSubscribe}, ""},
		{`{"action":"subscribe","filters":{"assets":null}}`, message{action: actionSubscribe}, ""},
		{`{"action":"unsubscribe","channels":["agent.status","agent.status"]}`, message{action: actionUnsubscribe, named: true, channels: []channel{agentStatus}}, ""},

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
		{`{"action":"subscribe","filters":{"assets":["B\u0000C"]}}`, message{action: actionSubscribe}, codeInvalidFilter},
		{`{"action":"subscribe","filters":{"assets":["` + strings.Repeat("x", 65) + `"]}}`, message{action: actionSubscribe}, codeInvalidFilter},
		{`{"action":"subscribe","filters":{"assets":["a"` + strings.Repeat(`,"a"`, 100) + `]}}`, message{action: actionSubscribe}, codeInvalidFilter},
		{`{"action":"subscribe","last_event_id":1795253400000}`, message{action: actionSubscribe}, codeInvalidMessage},
		{`{"action":"subscribe","resume":"x"}`, message{action: actionSubscribe}, codeInvalidMessage},
		{`{"action":"unsubscribe","filters":{}}`, message{action: actionUnsubscribe}, codeInvalidMessage},
	}
	for _, test := range tests {
		got, fault := decodeMessage([]byte(test.text))
		code := ""
		if fault != nil {
			code = fault.code
		}
		if code != test.code {
			t.Errorf("%s: code %q, want %q", test.text, code, test.code)
		}
		// Of several members it depends on their order which were read before a fault.
		if d := cmp.Diff(test.want, got, allowUnexported); d != "" && (code == "" || got.action != test.want.action) {
			t.Errorf("%s: %s", test.text, d)
		}
	}
	if _, f := decodeMessage([]byte(`{"action":"auth","api_key":"k","token":"l"}`)); f == nil {
		t.Error("two credentials are taken")
	}
}

func FuzzDecodeMessage(f *testing.F) {
	f.Add(`{"action":"subscribe","channels":["signal.new"],"filters":{"assets":["BTC"]},"last_event_id":"1-0","ref":"a"}`)
	f.Add(`{"action":"auth","token":"x"}`)
	f.Add(`{"action":"unsubscribe","channels":[]}`)
	f.Add(`{"action":"nap","ref":"\ud800"}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, fault := decodeMessage([]byte(text))
		if fault == nil && m.action == actionNone {
			t.Fatal("a message without action is taken")
		}
		if m.ref != nil && utf8.RuneCountInString(*m.ref) > maxRefCharacters {
			t.Fatal("a long ref is echoed")
		}
		if fault != nil {
			reply := encodeReply("error", errorData{m.ref, fault.code, fault.message}, at(0).Time())
			if len(reply) > 2000 || !json.Valid(reply[len(reply)-payloadLength(reply):]) {
				t.Fatalf("reply %q", reply)
			}
			return
		}
		s := newSubscription(m.channels, m.assets)
		if len(s.assets) > maxFilterAssets || s.channels.has(heartbeat) {
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
