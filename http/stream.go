package http

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/http/request"
)

// Hub serves the connections of the dashboard stream.
type Hub interface {
	// Refusal returns why a connection of p must not begin with a subscription, and the parameter whose fault that
	// is, or "".
	Refusal(ctx context.Context, p *signal.Principal, first *dashboard.Subscription) (name, detail string)
	// EnterReader counts one more connection of a reader, which Serve takes over; without Serve, LeaveReader ends it.
	// KindTooMany: the reader has as many as it may have.
	EnterReader(ctx context.Context, p *signal.Principal) error
	LeaveReader(p *signal.Principal)
	// Serve takes over an upgraded connection and closes it in the end. Without a principal
	// the first message must authenticate; with one the connection begins with first, unless that
	// is nil. settled is called, if not nil, as soon as the client is authenticated or the connection
	// has ended.
	Serve(ws *websocket.Conn, p *signal.Principal, first *dashboard.Subscription, settled func())
	// ServeEvents is Serve for Server-Sent Events. head is written before them. leave ends the connection, with
	// the advice to come back.
	ServeEvents(conn dashboard.Conn, head []byte, p *signal.Principal, first *dashboard.Subscription) (leave func())
}

// handshakeTimeout limits the writing of the answer to a handshake.
const handshakeTimeout = 10 * time.Second

// newUpgrader returns an upgrader for handshakes whose origin has been checked. The hub
// reads and writes without its buffers: with a pool and no size it allocates none.
func newUpgrader() websocket.Upgrader {
	return websocket.Upgrader{
		HandshakeTimeout: handshakeTimeout,
		WriteBufferPool:  &sync.Pool{},
		CheckOrigin:      func(*http.Request) bool { return true },
		Error:            func(http.ResponseWriter, *http.Request, int, error) {},
	}
}

// StreamHandlers answer handshakes of the stream.
type StreamHandlers struct {
	hub         Hub
	auth        authenticator
	origins     *Origins
	connections *ConnectionLimit
	upgrader    websocket.Upgrader
}

// NewStreamHandlers returns the handlers of a stream for pages of the service's own origin and of origins.
func NewStreamHandlers(hub Hub, auth Authenticator, origins *Origins, connections *ConnectionLimit) *StreamHandlers {
	return &StreamHandlers{hub, authenticator{auth}, origins, connections, newUpgrader()}
}

// Routes implements Resource.
func (h *StreamHandlers) Routes() []*Route {
	var routes []*Route
	for _, path := range []string{"/ws/dashboard", "/v1/ws/dashboard"} {
		routes = append(routes, route(path, methods{"GET": seen(&operation{guard: handshake, authenticate: h.authenticate,
			class: limits.Streams, handle: h.upgrade, params: streamParams})}))
	}
	return append(routes, route("/v1/sse/dashboard", methods{"GET": seen(&operation{guard: handshake,
		authenticate: h.authenticateEvents, class: limits.Streams, handle: h.events, params: streamParams})}))
}

// authenticate sets the principal of a stream by the header or, since browsers cannot
// set one, by the query. The header takes precedence; without either, the first message
// authenticates. Pages of foreign origins are refused.
func (h *StreamHandlers) authenticate(c *call) error {
	token := bearerToken(c.r.Header)
	inQuery := token == ""
	if inQuery {
		token = credentialOf(c.r.URL.RawQuery)
	}
	if token != "" {
		if err := h.auth.identify(c, token); err != nil {
			if inQuery && token == malformedToken {
				return errMalformedQuery
			}
			return err
		}
	}
	if !h.origins.ownOrListed(c.r) {
		return errForeignOrigin
	}
	return nil
}

// errMalformedQuery describes the credential of a query.
var errMalformedQuery = &signal.Error{Kind: signal.KindUnauthorized, Code: "invalid_token",
	Message: "The query must have one api_key or one token, not several."}

// credentialParams are the names of the credential in the query, as in the message auth.
var credentialParams = []string{"api_key", "token"}

// streamParams are the parameters of a handshake.
var streamParams = slices.Concat(credentialParams, dashboard.SubscriptionParams)

// credentialOf returns the credential in the query of a handshake, or "" without one. One
// that cannot be read, and more than one, count as malformed.
func credentialOf(raw string) (token string) {
	var f request.Faults
	q := request.NewQuery(raw, &f, credentialParams...)
	for _, name := range credentialParams {
		switch v := q.Get(name); {
		case q.IsBad(name), v != "" && token != "":
			return malformedToken
		case v != "":
			token = v
		}
	}
	return token
}

// upgrade answers GET /ws/dashboard: it upgrades the connection and hands it to the
// hub, once the handshake has been counted and logged.
func (h *StreamHandlers) upgrade(c *call) error {
	first := h.firstSubscription(c, "")
	checkHandshake(c.r.Header, &c.faults)
	if err := c.faults.Err(); err != nil {
		c.Header().Set("Sec-Websocket-Version", "13")
		return err
	}
	var p *signal.Principal
	if c.principal.Account != "" {
		p = new(c.principal) // a copy does not keep the request alive
	}
	settled, err := h.enter(c, p)
	if err != nil {
		return err
	}
	ws, err := h.upgrader.Upgrade(c, c.r, c.Header())
	if err != nil {
		settled()
		if p != nil && p.View != nil {
			h.hub.LeaveReader(p)
		}
		if _, refused := errors.AsType[websocket.HandshakeError](err); refused {
			return err // the connection cannot be taken over, which is not the client's fault
		}
		c.status = statusClientGone // it sent data too early, or left
		return nil
	}
	c.status = http.StatusSwitchingProtocols
	hub := h.hub
	c.then = func() { hub.Serve(ws, p, first, settled) }
	return nil
}

// enter counts a connection of p, or without a principal of its address until settled is called.
func (h *StreamHandlers) enter(c *call, p *signal.Principal) (settled func(), err error) {
	switch {
	case p == nil:
		end, ok := h.connections.begin(c.address)
		if !ok {
			return nil, errTooManyAnonymous
		}
		return end, nil
	case p.View != nil:
		err = h.hub.EnterReader(c.r.Context(), p)
	}
	return func() {}, err
}

// firstSubscription reads the subscription of a handshake, which needs its credential there, too: whose
// assets and events they are is not known before. lastEvent is in place of last_event_id, unless it is empty.
func (h *StreamHandlers) firstSubscription(c *call, lastEvent string) *dashboard.Subscription {
	bad := func(name, detail string) {
		if lastEvent != "" && name == "last_event_id" {
			c.faults.Add(request.InHeader, eventID, request.CodeInvalidValue, detail)
			return
		}
		c.faults.Add(request.InQuery, name, request.CodeInvalidValue, detail)
	}
	value := func(name string) (string, bool) {
		if lastEvent != "" && name == "last_event_id" {
			return lastEvent, true
		}
		return c.query.Lookup(name)
	}
	if c.principal.Account != "" {
		first := dashboard.ReadSubscription(c.principal.View, value, bad)
		if first != nil && !c.faults.Any() {
			if name, detail := h.hub.Refusal(c.r.Context(), &c.principal, first); detail != "" {
				bad(name, detail)
			}
		}
		return first
	}
	for _, name := range dashboard.SubscriptionParams {
		if _, given := c.query.Lookup(name); given {
			bad(name, "needs a credential in the handshake: in the header Authorization or the parameter api_key. "+
				"After one in the first message, send a subscribe")
		}
	}
	return nil
}

// checkHandshake records the faults of a handshake (RFC 6455).
func checkHandshake(h http.Header, f *request.Faults) {
	if !hasToken(h["Connection"], "upgrade") {
		f.Add(request.InHeader, "Connection", request.CodeInvalidValue, "must be Upgrade")
	}
	if !hasToken(h["Upgrade"], "websocket") {
		f.Add(request.InHeader, "Upgrade", request.CodeInvalidValue, "must be websocket")
	}
	if !hasToken(h["Sec-Websocket-Version"], "13") {
		f.Add(request.InHeader, "Sec-WebSocket-Version", request.CodeInvalidValue, "must be 13")
	}
	if key := h.Get("Sec-Websocket-Key"); !isHandshakeKey(key) {
		f.Add(request.InHeader, "Sec-WebSocket-Key", request.CodeFormat, "must be the base64 of 16 bytes")
	}
}

// hasToken reports whether a comma-separated header contains token, in any case.
func hasToken(values []string, token string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// isHandshakeKey reports whether s is the base64 of 16 bytes.
func isHandshakeKey(s string) bool {
	const base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	return len(s) == 24 && strings.HasSuffix(s, "==") && strings.Trim(s[:22], base64) == ""
}
