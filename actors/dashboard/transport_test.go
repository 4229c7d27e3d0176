package dashboard

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// sentEvent is an event as an EventSource understands it.
type sentEvent struct {
	name, data string
	id         string // lastEventId at that time
	retry      int    // ms, so far; -1 without one
}

// readEvents reads a stream as the HTML standard says (section 9.2.6), and returns its events and the bytes
// that are left of an event.
func readEvents(stream string) (list []sentEvent, rest string) {
	e := sentEvent{retry: -1}
	var data []string
	for {
		line, after, whole := strings.Cut(stream, "\n")
		if !whole {
			return list, stream
		}
		stream = after
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\r"), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			data = append(data, value)
		case "retry":
			e.retry, _ = strconv.Atoi(value)
		case "":
			if e.data = strings.Join(data, "\n"); e.data != "" {
				list = append(list, e)
			}
			e.name, data = "", nil
		}
	}
}

// sentEvents is sent by Server-Sent Events.
func (s *tap) sentEvents(tb testing.TB) (list []envelope, code int) {
	tb.Helper()
	events, rest := readEvents(string(s.out))
	if rest != "" {
		tb.Fatalf("%q is left of an event", rest)
	}
	last := ""
	for _, event := range events {
		var e envelope
		if err := json.Unmarshal([]byte(event.data), &e); err != nil {
			tb.Fatalf("message %q: %v", event.data, err)
		}
		if event.name == "close" {
			var why closeData
			if err := json.Unmarshal(e.Data, &why); err != nil || e.Type != "close" || code != 0 {
				tb.Errorf("the end, after %d, is %s, %v", code, event.data, err)
			}
			code = why.Code
			continue
		}
		if e.ID != "" {
			last = e.ID
		}
		if event.name != "" || event.id != last || event.retry < 500 || event.retry > 5000 {
			tb.Errorf("event %+v, want the last id %s", event, last)
		}
		list = append(list, e)
	}
	return list, code
}

// TestATransportChangesNoByteOfAMessage. Prices have no id: who resumes goes on from an event.
func TestATransportChangesNoByteOfAMessage(t *testing.T) {
	t.Parallel()
	e := created(alice, "BTC")
	e.Position = signal.Position{MS: 1_795_253_400_000, Seq: 7}
	event := newFrame(&e, nil)
	price := newPriceFrame(&LastPrice{Asset: "BTC", Price: 1, At: e.Time()}, assetOf("BTC"), e.Time())
	for want, f := range map[string]*frame{
		"id: 1795253400000-7\ndata: " + string(event.text) + "\n\n": event,
		"data: " + string(price.text) + "\n\n":                      price,
	} {
		if d := cmp.Diff(want, string(f.appendTo(nil, eventStream))); d != "" {
			t.Error(d)
		}
		got := f.appendTo([]byte("before"), webSocket)
		if !bytes.HasSuffix(got, f.text) || payloadLength(got[6:]) != len(f.text) {
			t.Errorf("by WebSocket: %q", got)
		}
	}
}

// TestAnEnvelopeIsAsLongAsItSays, and no longer than its limit.
func TestAnEnvelopeIsAsLongAsItSays(t *testing.T) {
	t.Parallel()
	longest := signal.Position{MS: -1 << 63, Seq: 1<<63 - 1}
	for _, by := range []transport{webSocket, eventStream} {
		for _, id := range []signal.Position{{}, at(1), longest} {
			for _, length := range []int{0, 125, 126, 65_535, 65_536} {
				n := len(by.append(nil, make([]byte, length), id))
				if n != by.size(make([]byte, length), id) || n > length+maxEnvelope {
					t.Errorf("%d bytes with the id %v by %d are %d", length, id, by, n)
				}
			}
		}
	}
}

// TestRetryAdvice: clients that may come back at once are spread, others wait.
func TestRetryAdvice(t *testing.T) {
	t.Parallel()
	for why, least := range map[closing]int{{}: 500, closeGoingAway: 500, closeSlow: 500, closeTooManyConns: 10_500,
		closeUnauth: 10_500, closeInternal: 10_500} {
		seen := map[string]bool{}
		for range 50 {
			text := string(appendRetry(nil, why))
			ms, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(text, "retry: "), "\n"))
			if err != nil || ms < least || ms >= least+4500 {
				t.Errorf("%v: %q, want %d to %d ms", why, text, least, least+4500)
			}
			seen[text] = true
		}
		if len(seen) < 10 {
			t.Errorf("%v: 50 clients are spread over %d times", why, len(seen))
		}
	}
}

// FuzzEventStream checks that each event of the log is one event with one line of data, whatever the log holds.
func FuzzEventStream(f *testing.F) {
	f.Add(`{"asset":"BTC"}`, "trading", int64(1))
	f.Add("{\n  \"asset\":\r\n\"BTC\"\n}\n", "a\nid: 7", int64(1<<62))
	f.Add("\n\n", "", int64(0))
	f.Fuzz(func(t *testing.T, data, agent string, seq int64) {
		for _, kind := range []signal.EventType{signal.SignalCreated, signal.SignalClosed, signal.AgentStarted} {
			e := signal.Event{Type: kind, Data: []byte(data), Agent: signal.AgentID(agent),
				Position: signal.Position{MS: 1, Seq: seq}}
			frame := newFrame(&e, nil)
			got, rest := readEvents(string(frame.appendTo(nil, eventStream)))
			want := []sentEvent{{data: string(frame.text), id: e.Position.String(), retry: -1}}
			if d := cmp.Diff(want, got, cmp.AllowUnexported(sentEvent{})); d != "" || rest != "" {
				t.Fatalf("rest %q, %s", rest, d)
			}
			if valid := json.Valid([]byte(data)); valid && kind == signal.SignalClosed && !json.Valid(frame.text) {
				t.Fatalf("message %q", frame.text)
			}
		}
	})
}
