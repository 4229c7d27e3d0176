package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// EventsPath is the path of the stream by Server-Sent Events.
const EventsPath = "/v1/sse/dashboard"

// EventStream is a connection to the stream by Server-Sent Events.
type EventStream struct {
	*Stream
	Answer *http.Response
	Leave  context.CancelFunc

	// Of the last event when the connection has ended.
	lastID string
	retry  time.Duration
}

// Events opens a stream with the client's credential. Headers are "Name: value".
func (c *Client) Events(query string, headers ...string) *EventStream {
	c.TB.Helper()
	s, answer := c.TryEvents(query, headers...)
	if s == nil {
		c.TB.Fatalf("open events: %d %s", answer.Status, answer.Body)
	}
	return s
}

// TryEvents is Events for a request that may be refused: then it returns the answer.
func (c *Client) TryEvents(query string, headers ...string) (*EventStream, Answer) {
	c.TB.Helper()
	ctx, leave := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+EventsPath+"?"+query, nil)
	Must(c.TB, err)
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	w, err := c.Base.RoundTrip(r)
	Must(c.TB, err)
	if w.StatusCode != http.StatusOK {
		leave()
		return nil, ReadAnswer(w)
	}
	if kind := w.Header.Get("Content-Type"); kind != "text/event-stream" || w.Header.Get("Content-Encoding") != "" {
		c.TB.Errorf("events of the type %q, with %v", kind, w.Header)
	}
	s := &EventStream{Stream: &Stream{tb: c.TB, news: make(chan struct{})}, Answer: w, Leave: leave}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer w.Body.Close()
		s.read(w.Body)
	}()
	c.TB.Cleanup(func() {
		leave()
		<-read
	})
	return s, Answer{}
}

// read reads events as an EventSource does, with fields of this service only.
func (s *EventStream) read(body io.Reader) {
	code := websocket.CloseAbnormalClosure // of the event close
	defer func() {
		if code != websocket.CloseAbnormalClosure && !StreamCheck(s.tb).CloseCode(code) {
			s.tb.Errorf("the code %d is not described", code)
		}
		s.note(func() { s.ended, s.code = true, code })
	}()
	var name, data, id string
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return // the bytes of half an event are dropped
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			name = value
		case "id":
			id = value
		case "retry":
			ms, err := strconv.Atoi(value)
			if err != nil {
				s.tb.Errorf("retry %q", value)
			}
			s.retry = time.Duration(ms) * time.Millisecond
		case "data":
			if data != "" {
				s.tb.Errorf("two lines of data: %s, %s", data, value)
			}
			data = value
		case "":
			s.lastID = id // only now: that of half an event does not count
			switch {
			case name == "close":
				code = closingOf(s.tb, data)
			case name != "":
				s.tb.Errorf("an event with the name %q", name)
			case data != "":
				if m := s.take([]byte(data)); m.ID != "" && m.ID != s.lastID {
					s.tb.Errorf("the event %s has the id %q", m.Text, s.lastID)
				}
			}
			name, data = "", ""
		default:
			s.tb.Errorf("a line %q", line)
		}
	}
}

// closingOf returns the code of an event close.
func closingOf(tb testing.TB, data string) int {
	var m struct {
		Type string
		Data struct {
			Code   int
			Reason string
		}
	}
	if err := json.Unmarshal([]byte(data), &m); err != nil || m.Type != "close" || m.Data.Reason == "" {
		tb.Errorf("the event close has %s: %v", data, err)
	}
	return m.Data.Code
}

// ComesBack returns the query and the header with which an EventSource comes back, after the end of the connection, and
// when it does.
func (s *EventStream) ComesBack() (header string, pause time.Duration) {
	s.tb.Helper()
	s.Closing()
	return fmt.Sprintf("Last-Event-ID: %s", s.lastID), s.retry
}
