package dashboard

import (
	"context"
	"errors"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// Messages to the actor of a connection, in addition to the client's.
type (
	// credentialChecked is the result of checking a client's credential.
	credentialChecked struct {
		principal signal.Principal
		err       error
	}
	// admitted is the result of counting a connection of a reader whose credential was checked.
	admitted struct {
		principal signal.Principal
		err       error
	}
	// followed reports that later events of the account will be published here.
	followed struct{ err error }
	// namesChecked is the result of checking the assets in the filters of a subscribe.
	namesChecked struct {
		message message
		fault   *fault // nil if all are accepted
	}
	// missedFound is the result of a search for missed events.
	missedFound struct {
		pending pendingSubscription
		replay  replay
		err     error
	}
	// caughtUp reports that a subscription is live.
	caughtUp struct{}
	// authTimedOut reports that the time to authenticate is over.
	authTimedOut struct{}
	// credentialExpired reports that the credential has expired.
	credentialExpired struct{}
	// ended reports that the socket is closed.
	ended struct{}
)

// Authenticator checks credentials.
type Authenticator interface {
	// Authenticate returns the principal that token belongs to. The error has
	// KindUnauthorized if the token is not valid; any other error means that it could
	// not be checked.
	Authenticate(ctx context.Context, token string) (signal.Principal, error)
}

// Limits of the messages that wait while one is being handled.
const (
	maxHeld      = 64
	maxHeldBytes = 64 << 10
	authLimit    = 5 * time.Second // for one call of the Authenticator
	followLimit  = 5 * time.Second // until the partition of the account is followed
)

// connection is the actor of one WebSocket. It holds the client's principal and
// subscription. It handles the client's messages one by one; those behind an auth or a
// resume wait until that is done.
type connection struct {
	hub  *Hub
	peer *peer

	principal *signal.Principal // nil before authentication
	first     *Subscription     // of the handshake, until its reply is posted; usually nil
	channels  []channel         // those of sub, in the client's order
	sub       *subscription

	busy       bool // an auth, its welcome or the search for missed events is in progress
	catchingUp bool // the new subscription is not live yet: a replay may be in progress
	held       []received
	heldBytes  int
	errors     rateWindow

	authTimer    engine.Timer // runs until the client is authenticated
	expiry       engine.Timer
	socketClosed bool // ended was received
}

// Receive implements engine.Actor.
func (a *connection) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started:
		a.onStarted(c)
	case received:
		a.onReceived(c, m)
	case violated:
		a.close(m.why)
	case clientClosed:
		a.close(closeBye)
	case credentialChecked:
		a.onCredentialChecked(c, m)
	case admitted:
		a.onAdmitted(c, m)
	case followed:
		a.onFollowed(c, m)
	case namesChecked:
		a.onNamesChecked(c, m)
	case missedFound:
		a.onMissedFound(c, m)
	case caughtUp:
		a.catchingUp = false
		a.resume(c)
	case authTimedOut:
		if a.principal == nil {
			a.close(closeUnauth)
		}
	case credentialExpired:
		a.close(closeUnauth)
	case ended:
		a.socketClosed = true
		c.Stop(c.Self())
	case engine.Stopping:
		if !a.socketClosed { // the actor failed, or the process stops
			a.close(closeInternal)
		}
	}
}

func (a *connection) onStarted(c engine.Context) {
	p := a.principal
	a.peer.ref = c.Self()
	if p == nil {
		a.authTimer = c.After(a.hub.o.AuthTimeout, authTimedOut{})
	} else {
		a.principal = nil
		a.accept(c, *p)
	}
	a.peer.begin()
}

// onReceived handles a message, or queues it behind one that is in progress.
func (a *connection) onReceived(c engine.Context, m received) {
	if m.excess {
		message, _ := decodeMessage(m.text, nil)
		a.refuse(message.ref, faultf(codeTooMany, "at most %d messages a second", a.hub.o.MessageRate))
		return
	}
	if !a.busy && len(a.held) == 0 && a.handle(c, m.text) {
		return
	}
	a.heldBytes += len(m.text)
	if a.held = append(a.held, m); len(a.held) > maxHeld || a.heldBytes > maxHeldBytes {
		a.close(closeFlood)
	}
}

// resume handles the queued messages, up to the next one that must wait.
func (a *connection) resume(c engine.Context) {
	for !a.busy && len(a.held) > 0 && a.handle(c, a.held[0].text) {
		a.heldBytes -= len(a.held[0].text)
		a.held = a.held[1:]
	}
	if len(a.held) == 0 {
		a.held = nil
	}
}

// handle reports whether the message was handled; otherwise it must wait. Only pings
// and faults are answered during a replay, which lasts as long as the client takes to
// read it.
func (a *connection) handle(c engine.Context, text []byte) bool {
	m, fault := decodeMessage(text, a.view())
	switch {
	case a.catchingUp && fault == nil && m.action != actionPing:
		return false
	case a.principal == nil && m.action != actionAuth:
		a.refuse(m.ref, faultf(codeAuthRequired, `the first message must be {"action": "auth", "api_key": "…"}`))
	case fault != nil:
		a.refuse(m.ref, fault)
	case m.action == actionAuth:
		a.authenticate(c, m.token)
	case m.action == actionSubscribe:
		a.checkNames(c, m)
	case m.action == actionUnsubscribe:
		a.unsubscribe(m)
	case m.action == actionPing:
		a.peer.flusher.post(sendReply{a.peer, "pong", pongData{m.ref}})
	}
	return true
}

// refuse answers a message with an error. The tenth within a minute closes the
// connection.
func (a *connection) refuse(ref *string, f *fault) {
	a.peer.flusher.post(sendReply{a.peer, "error", errorData{ref, f.code, f.message}})
	if a.errors.allow(a.hub.clock(), errorsPerMinute-1, time.Minute) {
		return
	}
	if f.code == codeTooMany {
		a.close(closeFlood)
		return
	}
	a.close(closeErrors)
}

func (a *connection) close(why closing) { a.peer.flusher.post(closeConn{a.peer, why}) }

func (a *connection) authenticate(c engine.Context, token string) {
	a.busy = true
	auth := a.hub.o.Authenticator
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, authLimit)
		defer cancel()
		p, err := auth.Authenticate(ctx, token)
		return credentialChecked{p, err}
	})
}

func (a *connection) onCredentialChecked(c engine.Context, m credentialChecked) {
	if m.err != nil {
		if signal.KindOf(m.err) == signal.KindUnauthorized {
			a.close(closeUnauth)
			return
		}
		if !errors.Is(m.err, context.Canceled) {
			a.hub.o.Logger.Warn("credential could not be checked", "connection", a.peer.id, "err", m.err)
		}
		a.close(closeInternal)
		return
	}
	if a.principal != nil && a.principal.Account != m.principal.Account {
		// Positions and sent frames belong to one account.
		a.close(closeUnauth)
		return
	}
	if m.principal.View != nil {
		hub, p := a.hub, a.peer
		c.Go(func(ctx context.Context) any { return admitted{m.principal, hub.enterReader(ctx, p, &m.principal)} })
		return
	}
	a.hub.setReader(a.peer, "")
	a.onAdmitted(c, admitted{principal: m.principal})
}

// onAdmitted accepts the principal of a credential, or closes a connection that is one too many of a reader.
func (a *connection) onAdmitted(c engine.Context, m admitted) {
	if m.err != nil {
		a.close(closeTooManyConns)
		return
	}
	a.busy = false
	a.accept(c, m.principal)
	a.resume(c)
}

// accept makes p the principal: the first one, or a renewed one of the same account. The first
// one is welcomed once the events of its account are published here.
func (a *connection) accept(c engine.Context, p signal.Principal) {
	first := a.principal == nil
	left := p.ExpiresAt.Sub(a.hub.o.Now())
	if !p.ExpiresAt.IsZero() && left <= 0 {
		a.close(closeUnauth)
		return
	}
	if first {
		if !a.hub.admit(a.peer, &p) {
			a.close(closeTooManyConns)
			return
		}
		a.authTimer.Stop()
		a.channels, a.sub = defaultChannels, newSubscription(nil, nil)
	}
	a.principal = &p
	a.expiry.Stop()
	if !p.ExpiresAt.IsZero() {
		a.expiry = c.After(left, credentialExpired{})
	}
	a.channels, _ = allowed(a.channels, p.Scopes)
	if a.sub = a.hub.names.index(a.peer, namerOf(&p), a.sub.with(a.channels, p.View)); a.sub == nil {
		a.close(closeErrors)
		return
	}
	if first && a.hub.o.Follower != nil {
		a.follow(c, p.Account)
		return
	}
	a.confirm(c)
}

// follow waits until events of the account are published here.
func (a *connection) follow(c engine.Context, account signal.AccountID) {
	follower, partition := a.hub.o.Follower, a.hub.o.PartitionOf(account)
	if follower.Attached(partition) { // as for all connections of an account but the first
		a.confirm(c)
		return
	}
	a.busy = true
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, followLimit)
		defer cancel()
		return followed{follower.Await(ctx, partition)}
	})
}

func (a *connection) onFollowed(c engine.Context, m followed) {
	if m.err != nil {
		if !errors.Is(m.err, context.Canceled) {
			a.hub.o.Logger.Warn("events of an account cannot be followed", "connection", a.peer.id, "err", m.err)
		}
		a.close(closeGoingAway)
		return
	}
	a.busy = false
	a.confirm(c)
	a.resume(c)
}

// confirm welcomes the principal, whose events the client gets from then on, or begins the
// subscription of the handshake.
func (a *connection) confirm(c engine.Context) {
	p := a.principal
	o := authenticated{peer: a.peer, account: p.Account, key: p.Key, session: p.Session}
	if a.first != nil {
		a.peer.flusher.post(o)
		a.subscribe(c, a.first.message)
		return
	}
	o.sub, o.welcome = a.sub, a.welcome()
	a.peer.flusher.post(o)
}

// view returns what the client sees; nil for everything, and before authentication.
func (a *connection) view() *signal.View {
	if a.principal == nil {
		return nil
	}
	return a.principal.View
}

func (a *connection) welcome() welcomeData {
	w := welcomeData{
		ConnectionID:     a.peer.id,
		HeartbeatSeconds: a.hub.o.Heartbeat.Seconds(),
		Channels:         names(a.channels),
		View:             a.view(),
	}
	if e := a.principal.ExpiresAt; !e.IsZero() {
		text := e.UTC().Format(signal.TimeLayout)
		w.ExpiresAt = &text
	}
	return w
}

// allowed splits list into the channels that scopes permit and the others.
func allowed(list []channel, scopes signal.ScopeSet) (granted, denied []channel) {
	for _, ch := range list {
		if ch.allowed(scopes) {
			granted = append(granted, ch)
		} else {
			denied = append(denied, ch)
		}
	}
	return granted, denied
}

// checkNames subscribes unless a name in the filters looks misspelt.
func (a *connection) checkNames(c engine.Context, m message) {
	if (a.hub.o.SuggestAssets == nil || len(m.filter.Assets) == 0) && !namesOthers(&m.filter, a.view()) {
		a.subscribe(c, m)
		return
	}
	a.busy = true
	hub, p := a.hub, a.principal
	c.Go(func(ctx context.Context) any {
		return namesChecked{m, hub.unknown(ctx, p, &m.filter)}
	})
}

func (a *connection) onNamesChecked(c engine.Context, m namesChecked) {
	a.busy = false
	if m.fault != nil {
		a.refuse(m.message.ref, m.fault)
	} else {
		a.subscribe(c, m.message)
	}
	a.resume(c)
}

// pendingSubscription is a subscribe message with what it leads to.
type pendingSubscription struct {
	message
	sub             *subscription
	granted, denied []channel // by the scopes
}

func (a *connection) subscribe(c engine.Context, m message) {
	w := pendingSubscription{message: m}
	w.granted, w.denied = a.wanted(m)
	account := a.principal.Account
	w.sub = a.hub.names.index(a.peer, namerOf(a.principal), a.hub.subscription(w.granted, &m.filter, a.view()))
	switch {
	case w.sub == nil:
		a.refuse(m.ref, a.hub.tooManyAssets())
		if a.first != nil { // there was room for it when it was read
			a.close(closeErrors)
		}
		return
	case m.lastEventID == nil:
		a.change(w, nil)
		return
	}
	a.busy = true
	a.peer.flusher.post(searching{a.peer})
	partition := a.hub.o.PartitionOf(account)
	c.Go(func(ctx context.Context) any {
		r, err := a.hub.resumer.findWithin(ctx, partition, account, w.sub, *m.lastEventID)
		return missedFound{w, r, err}
	})
}

// onMissedFound subscribes. If the event log could not be read, it closes the connection: whether events are
// missing is not known, and nothing would come live either.
func (a *connection) onMissedFound(c engine.Context, m missedFound) {
	if m.err != nil {
		a.hub.o.Logger.Warn("missed events could not be read", "connection", a.peer.id, "err", m.err)
		a.close(closeInternal)
		return
	}
	a.change(m.pending, &m.replay)
	a.busy = false
	a.resume(c)
}

// wanted splits the channels that m requests into those that the scopes permit and the
// others.
func (a *connection) wanted(m message) (granted, denied []channel) {
	if !m.named {
		granted, _ = allowed(defaultChannels, a.principal.Scopes)
		return granted, nil
	}
	return allowed(m.channels, a.principal.Scopes)
}

// change replaces the subscription by the one of w.
func (a *connection) change(w pendingSubscription, r *replay) {
	a.catchingUp = true
	a.channels, a.sub = w.granted, w.sub
	data := subscribedData{
		Ref:      w.ref,
		Channels: names(w.granted),
		Filters:  newFiltersData(&w.filter),
		Denied:   names(w.denied),
		View:     newViewData(w.sub, &w.filter),
	}
	o := subscribed{
		peer:   a.peer,
		sub:    w.sub,
		replay: r,
		kind:   "subscribed",
		reply: func(resumed *resumedData) any {
			data.Resumed = resumed
			return data
		},
	}
	if a.first != nil {
		a.first, o.welcome = nil, new(a.welcome())
	}
	a.peer.flusher.post(o)
}

func (a *connection) unsubscribe(m message) {
	a.catchingUp = true
	remove := setOf(m.channels)
	var rest []channel
	for _, ch := range a.channels {
		if m.named && !remove.has(ch) {
			rest = append(rest, ch)
		}
	}
	a.channels, a.sub = rest, a.sub.to(rest)
	a.peer.flusher.post(subscribed{peer: a.peer, sub: a.sub, kind: "unsubscribed",
		reply: func(*resumedData) any { return unsubscribedData{m.ref, names(rest)} }})
}
