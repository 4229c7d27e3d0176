package service

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

// message is a message of the service.
type message struct {
	Type      string
	ID        string
	Timestamp string
	Data      json.RawMessage
}

// stream is a connection to the dashboard stream. All messages of the service
// are compared with the description, and ids must increase.
type stream struct {
	tb testing.TB
	ws *websocket.Conn

	mu       sync.Mutex
	messages []message
	code     int           // of the close frame; 1006 without one
	ended    bool          // the connection
	news     chan struct{} // closed at each change
}

// dial opens a stream with the client's credential; without one it is not yet
// authenticated.
func (c *client) dial() *stream {
	c.tb.Helper()
	s, answer, err := c.tryDial(http.Header{})
	if err != nil {
		status := 0
		if answer != nil {
			status = answer.StatusCode
		}
		c.tb.Fatalf("open stream: %v (status %d)", err, status)
	}
	if c.token != "" {
		s.await("welcome", func(m message) bool { return m.Type == "welcome" })
	}
	return s
}

// tryDial is dial for a handshake that may be refused.
func (c *client) tryDial(h http.Header) (*stream, *http.Response, error) {
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	return c.connect("/ws/dashboard", h)
}

// dialAt opens a stream without a header.
func (c *client) dialAt(path string) *stream {
	c.tb.Helper()
	s, _, err := c.connect(path, nil)
	if err != nil {
		c.tb.Fatalf("open stream at %s: %v", path, err)
	}
	return s
}

func (c *client) connect(path string, h http.Header) (*stream, *http.Response, error) {
	d := websocket.Dialer{HandshakeTimeout: patience, TLSClientConfig: c.base.TLSClientConfig}
	ws, answer, err := d.Dial("ws"+strings.TrimPrefix(c.url, "http")+path, h)
	if err != nil {
		return nil, answer, err
	}
	s := &stream{tb: c.tb, ws: ws, news: make(chan struct{})}
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.read()
	}()
	c.tb.Cleanup(func() {
		ws.Close()
		<-read
	})
	return s, answer, nil
}

func (s *stream) read() {
	var last signal.Position
	for {
		kind, text, err := s.ws.ReadMessage()
		if err != nil {
			s.over(err)
			return
		}
		var m message
		if kind != websocket.TextMessage {
			s.tb.Errorf("the service sent a frame of kind %d", kind)
		} else if err := streamCheck(s.tb).FromServer(text); err != nil {
			s.tb.Errorf("%v: %.600s", err, text)
		} else if err := json.Unmarshal(text, &m); err != nil {
			s.tb.Errorf("read message %q: %v", text, err)
		}
		if m.ID != "" {
			p, _ := signal.ParsePosition(m.ID)
			if p.Compare(last) <= 0 {
				s.tb.Errorf("%s comes after %v", m.ID, last)
			}
			last = p
		}
		s.note(func() { s.messages = append(s.messages, m) })
	}
}

func (s *stream) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.news)
	s.news = make(chan struct{})
}

func (s *stream) over(err error) {
	code := websocket.CloseAbnormalClosure
	if e, ok := errors.AsType[*websocket.CloseError](err); ok {
		code = e.Code
	}
	if code != websocket.CloseAbnormalClosure && !streamCheck(s.tb).CloseCode(code) {
		s.tb.Errorf("the close code %d is not described", code)
	}
	s.note(func() { s.ended, s.code = true, code })
}

// until waits until ok returns true for all messages so far.
func (s *stream) until(what string, ok func(all []message) bool) []message {
	s.tb.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		s.mu.Lock()
		all, news, ended := s.messages[:len(s.messages):len(s.messages)], s.news, s.ended
		s.mu.Unlock()
		if ok(all) {
			return all
		}
		if ended {
			s.tb.Fatalf("stream: %s was not sent before the end with %d; messages: %s", what, s.code, types(all))
		}
		select {
		case <-news:
		case <-deadline.C:
			s.tb.Fatalf("stream: %s was not sent within %s; messages: %s", what, patience, types(all))
		}
	}
}

// await waits for a message.
func (s *stream) await(what string, ok func(message) bool) message {
	s.tb.Helper()
	var found message
	s.until(what, func(all []message) bool {
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

// signals waits until as many signals have been sent as are wanted, and compares both.
func (s *stream) signals(want ...string) {
	s.tb.Helper()
	all := s.until("all signals", func(all []message) bool { return len(signalsOf(all)) >= len(want) })
	if got := signalsOf(all); !slices.Equal(got, want) {
		s.tb.Errorf("the stream sent %v, want %v", got, want)
	}
}

// resumes subscribes from the message of from with the signal: as many messages must be replayed.
func (s *stream) resumes(from *stream, signal string, replayed int) {
	s.tb.Helper()
	place := from.await("the signal", func(m message) bool { return m.signalOf() == signal }).ID
	d := s.subscribe(`"channels":["signal.new"],"last_event_id":"` + place + `"`)
	if d.Resumed == nil || !d.Resumed.Complete || d.Resumed.Replayed != replayed {
		s.tb.Errorf("resumed: %+v, want %d messages", d.Resumed, replayed)
	}
}

// ping waits for the answer to a ping.
func (s *stream) ping() {
	s.tb.Helper()
	s.send(`{"action":"ping"}`)
	s.await("a pong", func(m message) bool { return m.Type == "pong" })
}

// closes waits for the end of the connection, which must have the close code.
func (s *stream) closes(want int) {
	s.tb.Helper()
	if got := s.closing(); got != want {
		s.tb.Errorf("the stream is closed with %d, want %d", got, want)
	}
}

// closing waits for the end of the connection and returns the close code.
func (s *stream) closing() int {
	s.tb.Helper()
	code := 0
	eventually(s.tb, "the stream ends", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		code = s.code
		return s.ended
	})
	return code
}

// events returns what has an id so far.
func (s *stream) events() []message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []message
	for _, m := range s.messages {
		if m.ID != "" {
			list = append(list, m)
		}
	}
	return list
}

// last returns the id of the newest event, or "".
func (s *stream) last() string {
	list := s.events()
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1].ID
}

// send sends a message that matches the description.
func (s *stream) send(text string) {
	s.tb.Helper()
	if err := streamCheck(s.tb).FromClient([]byte(text)); err != nil {
		s.tb.Fatalf("the test's own message is not described: %v", err)
	}
	s.sendRaw(websocket.TextMessage, text)
}

// sendRaw sends anything.
func (s *stream) sendRaw(kind int, text string) {
	s.tb.Helper()
	s.ws.SetWriteDeadline(time.Now().Add(patience))
	if err := s.ws.WriteMessage(kind, []byte(text)); err != nil {
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

// subscribe sends a subscribe with the given members and waits for its answer.
func (s *stream) subscribe(members string) subscribed {
	s.tb.Helper()
	ref := string(signal.NewRequestID())
	text := `{"action":"subscribe","ref":"` + ref + `"`
	if members != "" {
		text += "," + members
	}
	s.send(text + "}")
	var d subscribed
	s.await("the answer to subscribe", func(m message) bool {
		if m.Type != "subscribed" {
			return false
		}
		d = subscribed{}
		return json.Unmarshal(m.Data, &d) == nil && d.Ref != nil && *d.Ref == ref
	})
	return d
}

// runStatus is the data of agent.status.
type runStatus struct {
	Agent  string `json:"agent_id"`
	Status string
	Run    string `json:"run_id"`
}

// signalOf returns the signal of a signal.new, or "".
func (m message) signalOf() string {
	if m.Type != "signal.new" {
		return ""
	}
	var w wireSignal
	_ = json.Unmarshal(m.Data, &w)
	return w.ID
}

// statusOf returns the data of an agent.status, or the zero value.
func (m message) statusOf() (r runStatus) {
	if m.Type == "agent.status" {
		_ = json.Unmarshal(m.Data, &r)
	}
	return r
}

// types lists the types of messages, for failures.
func types(all []message) string {
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

// signalsOf returns the signals of messages, in their order.
func signalsOf(all []message) []string {
	var ids []string
	for _, m := range all {
		if id := m.signalOf(); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}
