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
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/retryafter"
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

	// maxSeen is how many IDs are remembered to notice what a resume repeats.
	maxSeen = 20_000
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
	Refused    *Refused    `json:"-"` // error
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

// Subscribed confirms a subscription. What follows it is live.
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

// Refused is the answer to a message that the service does not accept.
type Refused struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (r *Refused) Error() string { return "the service refuses the subscription: " + r.Message }

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
	case "error":
		m.Refused = new(Refused)
		data = m.Refused
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
	// LastID is the ID of the last event that the stream may resume after. The caller may set it to
	// that of an earlier Stream, and keep it.
	LastID string
	// Interrupted, unless it is nil, is called after each interruption, with the pause before the next
	// attempt.
	Interrupted func(err error, pause time.Duration)

	live       bool // a subscription was confirmed before
	subscribed bool // that of this connection is confirmed
	seen       map[string]bool
	order      []string // of seen
	early      []*Message
}

// handlerError is an error of the caller's function.
type handlerError struct{ error }

// Follow calls handle with each message, one after the other, and with each event once, until ctx ends or
// handle returns an error, which it returns. Errors of the service that a new connection would not
// change end it, too: *Problem, *ConnectError, *CloseError, *Refused.
//
// Events that come before the subscription is confirmed follow its reply if they pass the filters; so
// after a resume they may come before older ones.
func (s *Stream) Follow(ctx context.Context, handle func(*Message) error) error {
	sleep := s.Client.Sleep
	if sleep == nil {
		sleep = backoff.Sleep
	}
	retries := backoff.Backoff{Min: minReconnectPause, Max: maxReconnectPause, Jitter: true}
	for {
		began := time.Now()
		asked, err := s.connect(ctx, handle)
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
	if _, ok := errors.AsType[*Refused](err); ok {
		return true
	}
	_, connect := errors.AsType[*ConnectError](err)
	_, problem := errors.AsType[*Problem](err)
	return (connect || problem) && !Temporary(err)
}

// connect follows the stream of one connection until it ends. It returns the pause for which the
// service asks.
func (s *Stream) connect(ctx context.Context, handle func(*Message) error) (time.Duration, error) {
	ws, asked, err := s.dial(ctx)
	if err != nil {
		return asked, err
	}
	defer ws.Close()
	defer context.AfterFunc(ctx, func() { ws.Close() })()
	s.subscribed, s.early = false, nil
	subscribe := map[string]any{"action": "subscribe", "filters": s.Filters}
	if s.Channels != nil {
		subscribe["channels"] = s.Channels
	}
	if s.LastID != "" {
		subscribe["last_event_id"] = s.LastID
	}
	ws.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err := ws.WriteJSON(subscribe); err != nil {
		return 0, fmt.Errorf("subscribe: %w", err)
	}
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
		if err := s.receive(m, handle); err != nil {
			return 0, err
		}
	}
}

// dial opens a connection. With an error it returns the pause for which the service asks.
func (s *Stream) dial(ctx context.Context) (*websocket.Conn, time.Duration, error) {
	c := s.Client
	address := *c.Address
	address.Scheme = "ws" + strings.TrimPrefix(address.Scheme, "http")
	address.Path += "/ws/dashboard"
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
	return nil, retryafter.Parse(answer.Header.Get("Retry-After"), time.Now()),
		c.answerError(answer.StatusCode, body)
}

// receive passes a message on to handle, unless it came before.
func (s *Stream) receive(m *Message, handle func(*Message) error) error {
	pass := func(m *Message) error {
		if s.repeated(m.ID) {
			return nil
		}
		if err := handle(m); err != nil {
			return handlerError{err}
		}
		return nil
	}
	switch {
	case m.Type == "subscribed" && !s.subscribed:
		// Without a position before the interruption, events after it may have been missed.
		r := m.Subscribed.Resumed
		m.Subscribed.Gap = r == nil && s.live || r != nil && !r.Complete
		s.live, s.subscribed = true, true
		if err := pass(m); err != nil {
			return err
		}
		for _, e := range s.early {
			if !s.wanted(e, m.Subscribed.Channels) {
				continue
			}
			if err := pass(e); err != nil {
				return err
			}
		}
		s.early = nil
		return nil
	case m.Refused != nil && !s.subscribed: // it answers the subscription
		return m.Refused
	case m.ID != "" && !s.subscribed:
		s.early = append(s.early, m)
		return nil
	}
	err := pass(m)
	if err == nil && m.ID != "" {
		s.LastID = m.ID // after earlier ones, a resume would skip events
	}
	return err
}

// wanted reports whether an event of the default channels belongs to the subscription.
func (s *Stream) wanted(m *Message, channels []string) bool {
	return slices.Contains(channels, m.Type) && (m.Signal == nil || s.Filters.Passes(m.Signal))
}

// repeated records the ID of an event and reports whether it came before.
func (s *Stream) repeated(id string) bool {
	if id == "" {
		return false
	}
	if s.seen[id] {
		return true
	}
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	s.seen[id] = true
	s.order = append(s.order, id)
	if len(s.order) > maxSeen {
		delete(s.seen, s.order[0])
		s.order = s.order[1:]
	}
	return false
}
