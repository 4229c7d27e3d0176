package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/assets"
)

// The rules of a Stream.
const (
	// streamSilence is how long the stream may be silent; the service sends a heartbeat every 30 s.
	streamSilence = 90 * time.Second
	writeTimeout  = 10 * time.Second

	minReconnectPause = 500 * time.Millisecond
	maxReconnectPause = 15 * time.Second
	// departSpread spreads the return of the clients of a process that stops.
	departSpread = 5 * time.Second
)

// Channels are the types of messages that a subscription can name.
var Channels = []string{"signal.new", "signal.updated", "signal.closed", "agent.status", "system.notification",
	"market.price"}

// Filters select the signals of a subscription by their values at creation. A member without a
// value accepts all.
type Filters struct {
	Assets          []string `json:"assets,omitempty"` // by any of their names
	Agents          []string `json:"agents,omitempty"`
	Strategies      []string `json:"strategies,omitempty"`
	Directions      []string `json:"directions,omitempty"`
	MinConfidence   *float64 `json:"min_confidence,omitempty"`
	MinExpectedRNet *float64 `json:"min_expected_r_net,omitempty"`
}

// Passes reports whether a signal passes. Of a closed signal or an open one its confidence at
// creation counts, if it has one.
func (f *Filters) Passes(s *Signal) bool {
	confidence := s.Confidence
	if s.Status != "" {
		confidence = s.Initial
	}
	named := func(a string) bool { return assets.Key(a) == assets.Key(s.Asset) }
	switch {
	case len(f.Assets) > 0 && !slices.ContainsFunc(f.Assets, named),
		len(f.Agents) > 0 && !slices.Contains(f.Agents, s.Agent),
		len(f.Strategies) > 0 && !slices.Contains(f.Strategies, s.Strategy),
		len(f.Directions) > 0 && !slices.Contains(f.Directions, s.Direction),
		f.MinConfidence != nil && confidence < *f.MinConfidence:
		return false
	}
	return f.MinExpectedRNet == nil ||
		s.Metadata.ExpectedRNet != nil && *s.Metadata.ExpectedRNet >= *f.MinExpectedRNet
}

// Message is a message of the stream. Of the members from Signal on it has the one of its type, or
// none if this package does not know the type.
type Message struct {
	Object
	Type string    `json:"type"`
	ID   string    `json:"id"` // position of an event in the account's stream; "" of other messages
	At   time.Time `json:"timestamp"`

	Signal     *Signal     `json:"-"` // signal.new, signal.updated and signal.closed
	Agent      *AgentState `json:"-"` // agent.status
	Notice     *Notice     `json:"-"` // system.notification
	Price      *Price      `json:"-"` // market.price
	Subscribed *Subscribed `json:"-"` // subscribed
}

// AgentState reports that a run began or ended.
type AgentState struct {
	Agent  string `json:"agent_id"`
	Status string `json:"status"` // "running", "completed" or "error"
	Run    string `json:"run_id"`
}

// Notice is an alert of the service.
type Notice struct {
	Message  string `json:"message"`
	Severity string `json:"severity"` // "info", "warning" or "critical"
	Code     string `json:"code"`
}

// Price is the last price of an asset.
type Price struct {
	Asset  string    `json:"asset"`
	Price  float64   `json:"price"`
	At     time.Time `json:"at"`
	Source string    `json:"source"`
}

// Subscribed is the first message of a connection. What was missed follows it, and then live events.
type Subscribed struct {
	Channels []string `json:"channels"`
	Denied   []string `json:"denied"` // the credential has no scope for them
	Resumed  *struct {
		Replayed int  `json:"replayed"`
		Complete bool `json:"complete"`
	} `json:"resumed"`
	// Gap is set if events of the time without a connection may be missing: GET /v1/signals has their
	// signals.
	Gap bool `json:"-"`
}

// readMessage reads a message of the stream.
func readMessage(text []byte) (*Message, error) {
	var m struct {
		Message
		Data json.RawMessage `json:"data"`
	}
	err := json.Unmarshal(text, &m)
	if err == nil && m.Type == "" {
		err = errors.New("it has no type")
	}
	var data any
	switch m.Type {
	case "signal.new", "signal.updated", "signal.closed":
		m.Signal = new(Signal)
		data = m.Signal
	case "agent.status":
		m.Agent = new(AgentState)
		data = m.Agent
	case "system.notification":
		m.Notice = new(Notice)
		data = m.Notice
	case "market.price":
		m.Price = new(Price)
		data = m.Price
	case "subscribed":
		m.Subscribed = new(Subscribed)
		data = m.Subscribed
	}
	if err == nil && data != nil && len(m.Data) > 0 {
		err = json.Unmarshal(m.Data, data)
	}
	if err != nil {
		return nil, fmt.Errorf("read message: %w", err)
	}
	m.JSON = text
	if m.Signal != nil {
		m.Signal.JSON = m.Data
	}
	return &m.Message, nil
}

// CloseError is the end of a connection by the service that a new connection would not change.
type CloseError struct {
	Code   int
	Reason string
}

// Error implements error.
func (e *CloseError) Error() string {
	return fmt.Sprintf("the service has closed the connection (%d): %s", e.Code, e.Reason)
}

// lastingCodes are the close codes of which a new connection makes no difference.
var lastingCodes = []int{websocket.CloseProtocolError, websocket.CloseUnsupportedData,
	websocket.CloseInvalidFramePayloadData, websocket.CloseMessageTooBig, 4400, 4401, 4403}

// Stream follows the dashboard stream of a service. It connects again after each interruption and
// resumes where it was. It is for one goroutine.
type Stream struct {
	Client   *Client
	Channels []string // that are subscribed to; nil means those of the service's default
	Filters  Filters
	// LastID is the ID of the newest event that was handled. The caller may set it to that of an earlier
	// Stream, and keep it.
	LastID string
	// Interrupted, unless it is nil, is called after each interruption, with the pause before the next
	// attempt.
	Interrupted func(err error, pause time.Duration)

	live bool // a connection was subscribed before
}

// handlerError is an error of the caller's function.
type handlerError struct{ error }

// Follow calls handle with each message, one after the other, and with each event once, in the order of
// the account's events, until ctx ends or handle returns an error, which it returns. Errors of the service
// that a new connection would not change end it, too: *Problem, *ConnectError, *CloseError.
func (s *Stream) Follow(ctx context.Context, handle func(*Message) error) error {
	query, err := s.query()
	if err != nil {
		return err
	}
	sleep := s.Client.Sleep
	if sleep == nil {
		sleep = backoff.Sleep
	}
	retries := backoff.Backoff{Min: minReconnectPause, Max: maxReconnectPause, Jitter: true}
	for {
		began := time.Now()
		asked, err := s.connect(ctx, query, handle)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if own, ok := errors.AsType[handlerError](err); ok {
			return own.error
		}
		if final(err) {
			return err
		}
		if time.Since(began) > maxReconnectPause {
			retries.Reset()
		}
		pause := max(retries.Next(), asked)
		if closing, ok := errors.AsType[*websocket.CloseError](err); ok && closing.Code == websocket.CloseGoingAway {
			pause = max(pause, rand.N(departSpread))
		}
		if s.Interrupted != nil {
			s.Interrupted(err, pause)
		}
		if !sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// final reports whether a new connection would fail with err, too.
func final(err error) bool {
	if _, ok := errors.AsType[*CloseError](err); ok {
		return true
	}
	_, connect := errors.AsType[*ConnectError](err)
	_, problem := errors.AsType[*Problem](err)
	return (connect || problem) && !Temporary(err)
}

// connect follows the stream of one connection until it ends. It returns the pause for which the
// service asks.
func (s *Stream) connect(ctx context.Context, query url.Values, handle func(*Message) error) (time.Duration, error) {
	query.Set("last_event_id", s.LastID) // without one, too: any parameter makes it a subscription
	ws, asked, err := s.dial(ctx, query)
	if err != nil {
		return asked, err
	}
	defer ws.Close()
	defer context.AfterFunc(ctx, func() { ws.Close() })()
	ws.SetPingHandler(func(text string) error {
		ws.SetReadDeadline(time.Now().Add(streamSilence))
		return ws.WriteControl(websocket.PongMessage, []byte(text), time.Now().Add(writeTimeout))
	})
	ws.SetReadLimit(maxAnswer)
	for {
		ws.SetReadDeadline(time.Now().Add(streamSilence))
		_, text, err := ws.ReadMessage()
		if closing, ok := errors.AsType[*websocket.CloseError](err); ok && slices.Contains(lastingCodes, closing.Code) {
			return 0, &CloseError{closing.Code, closing.Text}
		}
		if err != nil {
			return 0, fmt.Errorf("read: %w", err)
		}
		m, err := readMessage(text)
		if err != nil {
			return 0, err
		}
		if sub := m.Subscribed; sub != nil {
			// Without a position before the interruption, events after it may have been missed.
			sub.Gap = sub.Resumed == nil && s.live || sub.Resumed != nil && !sub.Resumed.Complete
			s.live = true
		}
		if err := handle(m); err != nil {
			return 0, handlerError{err}
		}
		s.LastID = cmp.Or(m.ID, s.LastID)
	}
}

// query returns the subscription as the query of a handshake.
func (s *Stream) query() (url.Values, error) {
	q, f := url.Values{}, &s.Filters
	if s.Channels != nil {
		q.Set("channels", strings.Join(s.Channels, ","))
	}
	for name, list := range map[string][]string{"assets": f.Assets, "agents": f.Agents, "strategies": f.Strategies,
		"directions": f.Directions} {
		for _, item := range list {
			if strings.Contains(item, ",") {
				return nil, fmt.Errorf("filter %s: %q has a comma, which separates items: leave it out and filter the messages",
					name, item)
			}
		}
		if len(list) > 0 {
			q.Set(name, strings.Join(list, ","))
		}
	}
	for name, least := range map[string]*float64{"min_confidence": f.MinConfidence,
		"min_expected_r_net": f.MinExpectedRNet} {
		if least != nil {
			q.Set(name, strconv.FormatFloat(*least, 'g', -1, 64))
		}
	}
	return q, nil
}

// dial opens a connection. With an error it returns the pause for which the service asks.
func (s *Stream) dial(ctx context.Context, query url.Values) (*websocket.Conn, time.Duration, error) {
	c := s.Client
	address := *c.Address
	address.Scheme = "ws" + strings.TrimPrefix(address.Scheme, "http")
	address.Path += "/ws/dashboard"
	address.RawQuery = query.Encode()
	ws, answer, err := cmp.Or(c.dialer, websocket.DefaultDialer).DialContext(ctx, address.String(),
		http.Header{"Authorization": {"Bearer " + c.Key}})
	switch {
	case err == nil:
		c.answered.Store(true)
		return ws, 0, nil
	case answer == nil:
		return nil, 0, connectError(c.Address, err, c.answered.Load())
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<12))
	return nil, backoff.RetryAfter(answer.Header.Get("Retry-After"), time.Now()),
		(&request{client: c}).answerError(answer.StatusCode, body)
}
