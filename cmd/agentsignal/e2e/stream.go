package e2e

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Message is a message of the service.
type Message struct {
	Type      string
	ID        string
	Timestamp string
	Data      json.RawMessage
	Text      string // the whole message
}

// Stream is a connection to the dashboard stream. All messages of the service
// are compared with the description, and ids must increase.
type Stream struct {
	tb testing.TB
	WS *websocket.Conn // nil: by Server-Sent Events

	last signal.Position // used by the reading goroutine only

	mu       sync.Mutex
	messages []Message
	code     int           // of the close frame; 1006 without one
	ended    bool          // the connection
	news     chan struct{} // closed at each change
}

// Dial opens a stream with the client's credential; without one it is not yet
// authenticated.
func (c *Client) Dial() *Stream {
	c.TB.Helper()
	s, answer, err := c.TryDial(http.Header{})
	if err != nil {
		status := 0
		if answer != nil {
			status = answer.StatusCode
		}
		c.TB.Fatalf("open stream: %v (status %d)", err, status)
	}
	if c.Token != "" {
		s.Await("welcome", func(m Message) bool { return m.Type == "welcome" })
	}
	return s
}

// TryDial is dial for a handshake that may be refused.
func (c *Client) TryDial(h http.Header) (*Stream, *http.Response, error) {
	if c.Token != "" {
		h.Set("Authorization", "Bearer "+c.Token)
	}
	return c.connect("/ws/dashboard", h)
}

// DialAt opens a stream without a header.
func (c *Client) DialAt(path string) *Stream {
	c.TB.Helper()
	s, _, err := c.connect(path, nil)
	if err != nil {
		c.TB.Fatalf("open stream at %s: %v", path, err)
	}
	return s
}

func (c *Client) connect(path string, h http.Header) (*Stream, *http.Response, error) {
	d := websocket.Dialer{HandshakeTimeout: WaitLimit, TLSClientConfig: c.Base.TLSClientConfig}
	ws, answer, err := d.Dial("ws"+strings.TrimPrefix(c.URL, "http")+path, h)
	if err != nil {
		return nil, answer, err
	}
	s := &Stream{tb: c.TB, WS: ws, news: make(chan struct{})}
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.read()
	}()
	c.TB.Cleanup(func() {
		ws.Close()
		<-read
	})
	return s, answer, nil
}

func (s *Stream) read() {
	for {
		kind, text, err := s.WS.ReadMessage()
		if err != nil {
			s.over(err)
			return
		}
		if kind != websocket.TextMessage {
			s.tb.Errorf("the service sent a frame of kind %d", kind)
		}
		s.take(text)
	}
}

// take adds a message of the service, which it returns.
func (s *Stream) take(text []byte) Message {
	m := Message{Text: string(text)}
	if err := StreamCheck(s.tb).FromServer(text); err != nil {
		s.tb.Errorf("%v: %.600s", err, text)
	} else if err := json.Unmarshal(text, &m); err != nil {
		s.tb.Errorf("read message %q: %v", text, err)
	}
	if m.ID != "" {
		p, _ := signal.ParsePosition(m.ID)
		if p.Compare(s.last) <= 0 {
			s.tb.Errorf("%s comes after %v", m.ID, s.last)
		}
		s.last = p
	}
	s.note(func() { s.messages = append(s.messages, m) })
	return m
}

func (s *Stream) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.news)
	s.news = make(chan struct{})
}

func (s *Stream) over(err error) {
	code := websocket.CloseAbnormalClosure
	if e, ok := errors.AsType[*websocket.CloseError](err); ok {
		code = e.Code
	}
	if code != websocket.CloseAbnormalClosure && !StreamCheck(s.tb).CloseCode(code) {
		s.tb.Errorf("the close code %d is not described", code)
	}
	s.note(func() { s.ended, s.code = true, code })
}

// Until waits until ok returns true for all messages so far.
func (s *Stream) Until(what string, ok func(all []Message) bool) []Message {
	s.tb.Helper()
	deadline := time.NewTimer(WaitLimit)
	defer deadline.Stop()
	for {
		s.mu.Lock()
		all, news, ended := s.messages[:len(s.messages):len(s.messages)], s.news, s.ended
		s.mu.Unlock()
		if ok(all) {
			return all
		}
		if ended {
			s.tb.Fatalf("stream: %s was not sent before the end with %d; messages: %s", what, s.code, Types(all))
		}
		select {
		case <-news:
		case <-deadline.C:
			s.tb.Fatalf("stream: %s was not sent within %s; messages: %s", what, WaitLimit, Types(all))
		}
	}
}

// Await waits for a message.
func (s *Stream) Await(what string, ok func(Message) bool) Message {
	s.tb.Helper()
	var found Message
	s.Until(what, func(all []Message) bool {
		for _, m := range all {
			if ok(m) {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

// Signals waits until as many signals have been sent as are wanted, and compares both.
func (s *Stream) Signals(want ...string) {
	s.tb.Helper()
	all := s.Until("all signals", func(all []Message) bool { return len(SignalsOf(all)) >= len(want) })
	if got := SignalsOf(all); !slices.Equal(got, want) {
		s.tb.Errorf("the stream sent %v, want %v", got, want)
	}
}

// Resumes subscribes from the message of from with the signal: as many messages must be replayed.
func (s *Stream) Resumes(from *Stream, signal string, replayed int) {
	s.tb.Helper()
	place := from.Await("the signal", func(m Message) bool { return m.SignalOf() == signal }).ID
	d := s.Subscribe(`"channels":["signal.new"],"last_event_id":"` + place + `"`)
	if d.Resumed == nil || !d.Resumed.Complete || d.Resumed.Replayed != replayed {
		s.tb.Errorf("resumed: %+v, want %d messages", d.Resumed, replayed)
	}
}

// Ping waits for the answer to a ping.
func (s *Stream) Ping() {
	s.tb.Helper()
	s.Send(`{"action":"ping"}`)
	s.Await("a pong", func(m Message) bool { return m.Type == "pong" })
}

// Closes waits for the end of the connection, which must have the close code.
func (s *Stream) Closes(want int) {
	s.tb.Helper()
	if got := s.Closing(); got != want {
		s.tb.Errorf("the stream is closed with %d, want %d", got, want)
	}
}

// Closing waits for the end of the connection and returns the close code.
func (s *Stream) Closing() int {
	s.tb.Helper()
	code := 0
	Eventually(s.tb, "the stream ends", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		code = s.code
		return s.ended
	})
	return code
}

// Ended reports whether the connection has ended.
func (s *Stream) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// Events returns what has an id so far.
func (s *Stream) Events() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Message
	for _, m := range s.messages {
		if m.ID != "" {
			list = append(list, m)
		}
	}
	return list
}

// Last returns the id of the newest event, or "".
func (s *Stream) Last() string {
	list := s.Events()
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1].ID
}

// Send sends a message that matches the description.
func (s *Stream) Send(text string) {
	s.tb.Helper()
	if err := StreamCheck(s.tb).FromClient([]byte(text)); err != nil {
		s.tb.Fatalf("the test's own message is not described: %v", err)
	}
	s.SendRaw(websocket.TextMessage, text)
}

// SendRaw sends anything.
func (s *Stream) SendRaw(kind int, text string) {
	s.tb.Helper()
	s.WS.SetWriteDeadline(time.Now().Add(WaitLimit))
	if err := s.WS.WriteMessage(kind, []byte(text)); err != nil {
		s.tb.Fatalf("send %.100q: %v", text, err)
	}
}

// subscribed is the answer to a subscribe.
type subscribed struct {
	Ref      *string
	Channels []string
	Denied   []string
	Resumed  *struct {
		Replayed int
		Complete bool
	}
}

// Subscribe sends a subscribe with the given members and waits for its answer.
func (s *Stream) Subscribe(members string) subscribed {
	s.tb.Helper()
	ref := string(signal.NewRequestID())
	text := `{"action":"subscribe","ref":"` + ref + `"`
	if members != "" {
		text += "," + members
	}
	s.Send(text + "}")
	var d subscribed
	s.Await("the answer to subscribe", func(m Message) bool {
		if m.Type != "subscribed" {
			return false
		}
		d = subscribed{}
		return json.Unmarshal(m.Data, &d) == nil && d.Ref != nil && *d.Ref == ref
	})
	return d
}

// RunStatus is the data of agent.status.
type RunStatus struct {
	Agent  string `json:"agent_id"`
	Status string
	Run    string `json:"run_id"`
}

// SignalOf returns the signal of a signal.new, or "".
func (m Message) SignalOf() string {
	if m.Type != "signal.new" {
		return ""
	}
	var w WireSignal
	_ = json.Unmarshal(m.Data, &w)
	return w.ID
}

// StatusOf returns the data of an agent.status, or the zero value.
func (m Message) StatusOf() (r RunStatus) {
	if m.Type == "agent.status" {
		_ = json.Unmarshal(m.Data, &r)
	}
	return r
}

// Types lists the types of messages, for failures.
func Types(all []Message) string {
	var list []string
	for _, m := range all {
		list = append(list, m.Type)
	}
	const most = 40
	if len(list) > most {
		list = append([]string{"…"}, list[len(list)-most:]...)
	}
	return strings.Join(list, " ")
}

// SignalsOf returns the signals of messages, in their order.
func SignalsOf(all []Message) []string {
	var ids []string
	for _, m := range all {
		if id := m.SignalOf(); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}
