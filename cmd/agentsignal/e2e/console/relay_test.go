package console

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

//go:embed testdata/console/prelude.js
var preludeScript string

// consoleRelay stands between a browser and a service. It notes what the page asks, answers in the
// service's place and speaks on the stream where a test wants it to. The page gets the script
// prelude.js before its own.
//
// Requests are named "METHOD path?query" and chosen by the beginning of their name.
type consoleRelay struct {
	tb  testing.TB
	url string

	proxy   *httputil.ReverseProxy
	prelude string // is run after prelude.js

	mu      sync.Mutex
	asked   []string
	keys    []string // Idempotency-Key of changes, in their order
	answers []relayRule
	streams []*relayStream // of events
	sockets []*relayStream // all, those of prices too
}

type relayRule struct {
	begins string
	answer http.HandlerFunc
	change func(body map[string]any)
}

func newConsoleRelay(tb testing.TB, target string) *consoleRelay {
	tb.Helper()
	b := &consoleRelay{tb: tb}
	to, err := url.Parse(target)
	e2e.Must(tb, err)
	b.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Del("Accept-Encoding") // answers are changed here
		},
		ModifyResponse: b.modify,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := nameOf(r)
		b.mu.Lock()
		b.asked = append(b.asked, name)
		if r.Method != http.MethodGet {
			b.keys = append(b.keys, r.Header.Get("Idempotency-Key"))
		}
		rule := b.rule(name)
		b.mu.Unlock()
		switch {
		case rule.answer != nil:
			rule.answer(w, r)
		case r.URL.Path == "/dashboard/prelude.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, preludeScript+b.prelude)
		case websocket.IsWebSocketUpgrade(r):
			b.stream(w, r, "ws"+strings.TrimPrefix(target, "http")+r.URL.RequestURI())
		default:
			b.proxy.ServeHTTP(w, r)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	tb.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, s := range b.sockets {
			s.end()
		}
		server.CloseClientConnections()
		server.Close()
	})
	b.url = server.URL
	return b
}

func nameOf(r *http.Request) string { return r.Method + " " + r.URL.RequestURI() }

// rule returns the newest rule for a request. The caller holds the lock.
func (b *consoleRelay) rule(name string) relayRule {
	for _, r := range slices.Backward(b.answers) {
		if strings.HasPrefix(name, r.begins) {
			return r
		}
	}
	return relayRule{}
}

// answer lets h answer requests whose name begins so; nil lets them through again.
func (b *consoleRelay) answer(begins string, h http.HandlerFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = slices.DeleteFunc(b.answers, func(r relayRule) bool { return r.begins == begins })
	if h != nil {
		b.answers = append(b.answers, relayRule{begins: begins, answer: h})
	}
}

// change changes the JSON object that the service answers to such requests.
func (b *consoleRelay) change(begins string, f func(body map[string]any)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = append(b.answers, relayRule{begins: begins, change: f})
}

func (b *consoleRelay) modify(w *http.Response) error {
	b.mu.Lock()
	rule := b.rule(w.Request.Method + " " + w.Request.URL.RequestURI())
	b.mu.Unlock()
	page := strings.HasPrefix(w.Header.Get("Content-Type"), "text/html")
	if rule.change == nil && !page || w.StatusCode != http.StatusOK {
		return nil
	}
	text, err := io.ReadAll(w.Body)
	w.Body.Close()
	if err != nil {
		return err
	}
	if page {
		text = bytes.Replace(text, []byte("<head>"), []byte(`<head><script src="/dashboard/prelude.js"></script>`), 1)
	} else {
		var body map[string]any
		if err := json.Unmarshal(text, &body); err != nil {
			return err
		}
		rule.change(body)
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	w.Body = io.NopCloser(bytes.NewReader(text))
	w.ContentLength = int64(len(text))
	w.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

// count returns how many requests had a name that begins so.
func (b *consoleRelay) count(begins string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, name := range b.asked {
		if strings.HasPrefix(name, begins) {
			n++
		}
	}
	return n
}

// forget returns the names of all requests so far, and counts from 0.
func (b *consoleRelay) forget() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.asked
	b.asked, b.keys = nil, nil
	return all
}

// keysUsed returns the idempotency keys of changes since forget.
func (b *consoleRelay) keysUsed() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.keys)
}

// problemAnswer answers with an error document.
func problemAnswer(status int, code, detail string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "/problems/" + code, "title": detail, "status": status,
			"detail": detail, "code": code, "request_id": "req_test"})
	}
}

// The answers of a service that has no such path, is away, or does not answer at all.
var (
	noSuchPath  = problemAnswer(http.StatusNotFound, "not_found", "There is no such path.")
	unavailable = problemAnswer(http.StatusServiceUnavailable, "unavailable", "The store is away.", "Retry-After: 5")
	noAnswer    = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
)

// swallow lets the service do what such requests ask for, and loses its first n answers.
func (b *consoleRelay) swallow(begins string, n int) {
	b.answer(begins, func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		n--
		lost := n >= 0
		b.mu.Unlock()
		if lost {
			b.proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		b.proxy.ServeHTTP(w, r)
	})
}

// relayStream is one connection of a page to the stream.
type relayStream struct {
	client, server *websocket.Conn
	asked          url.Values // the query of the handshake

	mu    sync.Mutex
	said  []string // by the page
	heard strings.Builder
	over  bool
}

var upgrader = websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}

func (b *consoleRelay) stream(w http.ResponseWriter, r *http.Request, target string) {
	server, answer, err := websocket.DefaultDialer.Dial(target, nil)
	if err != nil {
		status := http.StatusBadGateway
		if answer != nil {
			status = answer.StatusCode
		}
		w.WriteHeader(status)
		return
	}
	client, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		server.Close()
		return
	}
	s := &relayStream{client: client, server: server, asked: r.URL.Query()}
	b.mu.Lock()
	b.sockets = append(b.sockets, s)
	if !s.brings("market.price") {
		b.streams = append(b.streams, s)
	}
	b.mu.Unlock()
	go func() {
		defer s.end()
		for {
			kind, text, err := client.ReadMessage()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.said = append(s.said, string(text))
			s.mu.Unlock()
			if server.WriteMessage(kind, text) != nil {
				return
			}
		}
	}()
	for {
		kind, text, err := server.ReadMessage()
		if err != nil {
			code := websocket.CloseGoingAway
			if closed, ok := errors.AsType[*websocket.CloseError](err); ok && closed.Code != websocket.CloseAbnormalClosure {
				code = closed.Code
			}
			s.close(code)
			return
		}
		s.send(kind, string(text))
	}
}

// open returns the connections for events, the oldest first.
func (b *consoleRelay) open() []*relayStream {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.streams)
}

// newest waits for connection n of open, counted from 1.
func (b *consoleRelay) newest(n int) *relayStream {
	b.tb.Helper()
	e2e.Eventually(b.tb, fmt.Sprintf("stream %d is open", n), func() bool { return len(b.open()) >= n })
	return b.open()[n-1]
}

// prices waits for connection n for prices, counted from 1.
func (b *consoleRelay) prices(n int) *relayStream {
	b.tb.Helper()
	var list []*relayStream
	e2e.Eventually(b.tb, fmt.Sprintf("stream %d of prices is open", n), func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		list = nil
		for _, s := range b.sockets {
			if s.brings("market.price") {
				list = append(list, s)
			}
		}
		return len(list) >= n
	})
	return list[n-1]
}

// brings reports whether the page asked for a channel at the handshake.
func (s *relayStream) brings(channel string) bool {
	return slices.Contains(strings.Split(s.asked.Get("channels"), ","), channel)
}

// subscribes returns the messages by which the page subscribed again.
func (s *relayStream) subscribes() []string { return s.saidWith("subscribe") }

// saidWith returns the messages of the page with an action.
func (s *relayStream) saidWith(action string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, text := range s.said {
		if strings.Contains(text, `"action":"`+action+`"`) {
			list = append(list, text)
		}
	}
	return list
}

// send sends a frame to the page.
func (s *relayStream) send(kind int, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.client.WriteMessage(kind, []byte(text))
	s.heard.WriteString(text)
}

// sent reports whether the page was sent a message with the text.
func (s *relayStream) sent(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.heard.String(), text)
}

// left reports whether the connection has ended.
func (s *relayStream) left() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// says sends text frames to the page.
func (s *relayStream) says(texts ...string) {
	for _, text := range texts {
		s.send(websocket.TextMessage, text)
	}
}

// close ends the connection with a code.
func (s *relayStream) close(code int) {
	s.send(websocket.CloseMessage, string(websocket.FormatCloseMessage(code, "")))
	s.end()
}

func (s *relayStream) end() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.client.Close()
	s.server.Close()
}
