package clients

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

const clientsPath = "../../../../deploy/clients"

// TestPythonFollow runs follow of the client in Python on messages that are made up.
func TestPythonFollow(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(interpreter(t, "python3"), "-B", "testdata/python/follow_test.py", clientsPath).CombinedOutput()
	if err != nil {
		t.Errorf("the tests in Python: %v\n%s", err, out)
	}
}

// TestPythonClient runs the client in Python on a service, through a relay that cuts its connections, and
// then on a server that sends what a service seldom does.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	interpreter(t, "python3")
	s := e2e.Shared(t)
	trader, _ := s.Account(t)
	relay := newCutRelay(t, strings.TrimPrefix(s.URL, "http://"))
	p := startPython(t, "follow.py", "http://"+relay.addr, trader.Token)
	if m := p.message("subscribed"); m["gap"] != false {
		t.Errorf("it begins with %v", m)
	}
	var made []string
	run := func(command string) {
		t.Helper()
		p.send(command)
		id := p.next("run").(map[string]any)["signal_id"].(string)
		if !slices.Contains(made, id) {
			made = append(made, id)
		}
	}
	streamed := func() { // each signal comes once and in order
		t.Helper()
		if got := p.message("signal.new")["data"].(map[string]any)["signal_id"]; got != made[len(made)-1] {
			t.Fatalf("the stream has %v, want %v", got, made)
		}
	}
	for range 2 {
		run("run BTC momentum")
		streamed()
	}
	run("run-with-key once")
	streamed()
	run("run-with-key once")
	// Cut off, it misses signals, and gets each once when it comes back.
	relay.refuse(true)
	relay.cut()
	for range 3 {
		made = append(made, trader.Run("BTC", "momentum").ID)
	}
	relay.refuse(false)
	m := p.message("subscribed")
	if resumed := m["data"].(map[string]any)["resumed"].(map[string]any); resumed["replayed"] != 3.0 || m["gap"] != false {
		t.Errorf("it resumes with %v", m)
	}
	for _, id := range made[3:] {
		if got := p.message("signal.new")["data"].(map[string]any)["signal_id"]; got != id {
			t.Errorf("the stream has %v, want %s of %v", got, id, made)
		}
	}
	run("run BTC breakout")
	streamed()
	p.send("signals")
	listed := p.next("signals").([]any)
	slices.Reverse(listed)
	if fmt.Sprint(listed) != fmt.Sprint(made) {
		t.Errorf("the list has %v, want %v", listed, made)
	}
	// An asset has many names.
	newest := made[len(made)-1]
	p.send("follow bitcoin " + newest)
	if got := p.next("follow"); got != newest {
		t.Errorf("of what is open it has %v, want %s", got, newest)
	}
	p.send("run BTC nosuch")
	if problem := p.next("problem").(map[string]any); problem["code"] != "invalid_request" {
		t.Errorf("a bad run has %v", problem)
	}
}

// oddServer answers the requests that a client makes of the API in an unusual way: the list in pages with a
// signal that moves, after a 503, and the stream in fragments.
type oddServer struct {
	mu        sync.Mutex
	lists     int
	keys      []string
	subscribe []url.Values // queries of the handshakes
	pongs     []string
}

func (o *oddServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/run"):
		o.keys = append(o.keys, r.Header.Get("Idempotency-Key"))
		if len(o.keys) == 1 {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, `{"signal_id":"a"}`)
	case r.URL.Path == "/v1/signals":
		o.lists++
		switch r.URL.Query().Get("offset") {
		case "0":
			io.WriteString(w, `{"signals":[{"signal_id":"c"},{"signal_id":"b"}],"has_more":true}`)
		case "2": // b has moved here
			io.WriteString(w, `{"signals":[{"signal_id":"b"},{"signal_id":"a"}],"has_more":false}`)
		}
	default:
		o.mu.Unlock()
		o.stream(w, r)
		o.mu.Lock()
	}
}

// stream serves a connection: the first breaks off within a message, the second has a gap, the third ends for
// good.
func (o *oddServer) stream(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{WriteBufferSize: 32} // a longer message is sent in fragments
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	o.mu.Lock()
	o.subscribe = append(o.subscribe, r.URL.Query())
	n := len(o.subscribe)
	o.mu.Unlock()
	send := func(text string) {
		fragments, err := ws.NextWriter(websocket.TextMessage)
		if err != nil {
			return
		}
		io.WriteString(fragments, text[:len(text)/2])
		ws.WriteControl(websocket.PingMessage, []byte(fmt.Sprint("between ", n)), time.Now().Add(e2e.WaitLimit))
		io.WriteString(fragments, text[len(text)/2:])
		fragments.Close()
	}
	event := func(id, asset string) string {
		return `{"type":"signal.new","id":"` + id + `","data":{"asset":"` + asset + `","agent_id":"trading","é":"` +
			strings.Repeat("ü", 70_000) + `"},"timestamp":""}`
	}
	confirm := func(resumed string) {
		send(`{"type":"subscribed","data":{"channels":["signal.new"],"denied":[],"resumed":` + resumed + `},"timestamp":""}`)
	}
	switch n {
	case 1:
		confirm("null")
		send(`{"type":"welcome","data":{},"timestamp":""}`)
		send(event("2-0", "BTC"))
		send(event("4-0", "BTC"))
		ws.WriteControl(websocket.PingMessage, []byte("end"), time.Now().Add(e2e.WaitLimit))
		ws.SetPongHandler(func(text string) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.pongs = append(o.pongs, text)
			if text == "end" {
				return io.EOF
			}
			return nil
		})
		ws.ReadMessage() // until all pings are answered
		ws.NetConn().Write([]byte{0x81, 20, '{'})
	case 2:
		confirm(`{"replayed":0,"complete":false}`)
		send(event("9-0", "BTC"))
		ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(4008, "slow"), time.Now().Add(e2e.WaitLimit))
		ws.ReadMessage() // a connection that is closed with unread bytes loses what was sent
	case 3:
		confirm(`{"replayed":1,"complete":true}`)
		send(event("10-0", "BTC"))
		ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(4401, "no"), time.Now().Add(e2e.WaitLimit))
		ws.ReadMessage()
	}
}

func TestPythonClientOnAnOddServer(t *testing.T) {
	t.Parallel()
	interpreter(t, "python3")
	odd := &oddServer{}
	server := httptest.NewServer(odd)
	t.Cleanup(server.Close)
	p := startPython(t, "follow.py", server.URL, "key")
	var got []string
	for len(got) < 9 {
		switch v := p.any(); v.Kind {
		case "message":
			m := v.Value.(map[string]any)
			text := m["type"].(string)
			if gap, has := m["gap"]; has {
				text += fmt.Sprint(" gap ", gap)
			} else if id, has := m["id"]; has {
				text += fmt.Sprint(" ", id)
				if n := len([]rune(m["data"].(map[string]any)["é"].(string))); n != 70_000 {
					t.Errorf("a message has %d characters", n)
				}
			}
			got = append(got, text)
		default:
			got = append(got, fmt.Sprint(v.Kind, " ", v.Value))
		}
	}
	want := []string{"subscribed gap false", "welcome", "signal.new 2-0", "signal.new 4-0", "subscribed gap true",
		"signal.new 9-0", "subscribed gap false", "signal.new 10-0", "closed 4401"}
	if !slices.Equal(got, want) {
		t.Errorf("it has %q, want %q", got, want)
	}
	p.send("run BTC momentum")
	p.next("run")
	p.send("signals")
	if list := p.next("signals"); fmt.Sprint(list) != "[c b a]" {
		t.Errorf("it lists %v", list)
	}
	odd.mu.Lock()
	defer odd.mu.Unlock()
	if len(odd.keys) != 2 || odd.keys[0] == "" || odd.keys[0] != odd.keys[1] {
		t.Errorf("it repeats a run with the keys %q", odd.keys)
	}
	for i, last := range []string{"", "4-0", "9-0"} {
		want := url.Values{"channels": {"signal.new"}, "assets": {"BTC"}, "last_event_id": {last}}
		if d := cmp.Diff(want, odd.subscribe[i]); d != "" {
			t.Error(d)
		}
	}
	if odd.pongs[0] != "between 1" {
		t.Errorf("it answers pings with %q", odd.pongs)
	}
}
