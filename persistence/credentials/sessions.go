package credentials

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var (
	sessionCreateScript = redisclient.Script(scripts, removeSession, "session_create")
	sessionRotateScript = redisclient.Script(scripts, "session_rotate")
	sessionEndScript    = redisclient.Script(scripts, removeSession, "session_end")
	sessionsEndScript   = redisclient.Script(scripts, removeSession, "sessions_end")
)

// removeSession is the file of a function that scripts which end sessions need.
const removeSession = "shared/session_remove"

// sessionsAtOnce is how many sessions one script ends. Redis does nothing else meanwhile, so more
// of them take several scripts.
const sessionsAtOnce = 500

// endTries is how often in a row endOldest may end no session, since another has begun meanwhile whose
// own end is nearer.
const endTries = 5

// SessionStore keeps sessions.
type SessionStore struct{ client }

// CreateSession begins a session after a correct password and clears the failed logins of the
// email. If the account then has more than maxSessions, those whose own end is nearest are ended;
// it returns the events that announce them, which are to be settled. If the email was locked
// meanwhile nothing is changed and it returns until when. KindConflict: the account was deleted,
// or its password no longer has that version.
func (s *SessionStore) CreateSession(ctx context.Context, n credential.Session, passwordVersion int64, email credential.Digest,
	maxSessions int, now time.Time) (ended []signal.Event, lockedUntil time.Time, err error) {
	event := newEvent(n.Account, signal.SessionEnded, "")
	before, after := announcementAround(event)
	args := []any{string(n.ID), passwordVersion, now.UnixMilli(), n.KeepUntil.UnixMilli(), maxSessions,
		sessionsAtOnce, before, after}
	keys := []string{s.AccountKey(n.Account), s.SessionKey(n.ID),
		s.SessionsOfKey(n.Account), s.RefreshKey(n.Locator.String()),
		s.LockKey(email.String()), s.OutboxKey()}
	var oldest sessionNames // not read unless one must end
	for {
		answer, unconfirmed := s.apply(ctx, sessionCreateScript, oldest.after(keys),
			append(oldest.afterArgs(args), encodeSession(n)...)...)
		if !redisclient.Stands(unconfirmed) {
			return ended, time.Time{}, redisclient.Failed(unconfirmed, "create session")
		}
		code, ids, err := numberAndTexts(answer.Val())
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("create session: %w", err)
		}
		switch code {
		case 0:
			ended = append(ended, endedEvents(event, ids)...)
			return ended, time.Time{}, redisclient.Failed(unconfirmed, "create session")
		case -1:
			return ended, time.Time{}, redisclient.Refused("conflict", "the account was changed meanwhile")
		case -2:
			more, err := s.endOldest(ctx, event, maxSessions, "", "", now)
			ended = append(ended, more...)
			if err != nil {
				return ended, time.Time{}, err
			}
		case -3:
			if oldest, err = s.oldestSessions(ctx, n.Account, sessionsAtOnce); err != nil {
				return ended, time.Time{}, err
			}
		default:
			return ended, time.UnixMilli(code).UTC(), nil
		}
	}
}

// sessionNames names sessions for the scripts that may end them: by their keys, two each, and by their
// ids and locators.
type sessionNames struct {
	keys []string
	args []any
}

// after returns keys, followed by those of n.
func (n sessionNames) after(keys []string) []string { return slices.Concat(keys, n.keys) }

// afterArgs returns args, followed by those of n.
func (n sessionNames) afterArgs(args []any) []any { return slices.Concat(args, n.args) }

// oldestSessions returns the names of at most limit sessions of an account, in the order of their own
// ends. A session's locator never changes, so it may be read before the script that ends it.
func (s *SessionStore) oldestSessions(ctx context.Context, account signal.AccountID, limit int) (n sessionNames, err error) {
	ids, err := s.RDB.ZRange(ctx, s.SessionsOfKey(account), 0, int64(limit)-1).Result()
	if err != nil {
		return n, redisclient.Failed(err, "list sessions")
	}
	if len(ids) == 0 {
		return n, nil
	}
	pipe := s.RDB.Pipeline()
	locators := make([]*redis.StringCmd, len(ids))
	for i, id := range ids {
		locators[i] = pipe.HGet(ctx, s.SessionKey(signal.SessionID(id)), "locator")
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return n, redisclient.Failed(err, "read sessions")
	}
	for i, id := range ids { // an expired one has no locator
		s.name(&n, signal.SessionID(id), locators[i].Val())
	}
	return n, nil
}

// name adds a session to n.
func (s *SessionStore) name(n *sessionNames, id signal.SessionID, locator string) {
	n.keys = append(n.keys, s.SessionKey(id), s.RefreshKey(locator))
	n.args = append(n.args, string(id), locator)
}

// endOldest ends sessions of the account of event, in the order of their own ends and by as many
// scripts as it takes, until at most left remain. The session keep stays; with one, left must be
// at least 1. Each is announced by event with the session as subject, or all by one event with
// the given subject. Events with KindUnavailable: those sessions have ended, but may come back
// if the master is lost.
func (s *SessionStore) endOldest(ctx context.Context, event signal.Event, left int, keep signal.SessionID, subject string,
	now time.Time) ([]signal.Event, error) {
	before, after := announcementAround(event)
	keys := []string{s.SessionsOfKey(event.Account), s.OutboxKey()}
	args := []any{now.UnixMilli(), sessionsAtOnce, left, string(keep), before, after, subject}
	var ended []signal.Event
	idle, previous := 0, int64(math.MaxInt64)
	for {
		oldest, err := s.oldestSessions(ctx, event.Account, sessionsAtOnce+1) // keep may be the first
		if err != nil {
			return ended, err
		}
		answer, unconfirmed := s.end(ctx, sessionsEndScript, oldest.after(keys), oldest.afterArgs(args)...)
		if !redisclient.Stands(unconfirmed) {
			return ended, redisclient.Failed(unconfirmed, "end sessions")
		}
		over, ids, err := numberAndTexts(answer.Val())
		if err != nil {
			return ended, fmt.Errorf("end sessions: %w", err)
		}
		ended = append(ended, endedEvents(event, ids)...)
		if over <= 0 { // replicas that have the last write have all before it
			return ended, redisclient.Failed(unconfirmed, "end sessions")
		}
		if idle++; over < previous {
			idle = 0
		}
		if previous = over; idle == endTries {
			return ended, fmt.Errorf("end sessions: %d too many are left and cannot be ended", over)
		}
	}
}

// endedEvents returns event for each subject.
func endedEvents(event signal.Event, subjects []string) []signal.Event {
	events := make([]signal.Event, len(subjects))
	for i, id := range subjects {
		events[i] = event
		events[i].Subject = id
	}
	return events
}

// numberAndTexts reads an answer of a script: a number and texts.
func numberAndTexts(reply any) (int64, []string, error) {
	if answer, _ := reply.([]any); len(answer) > 0 {
		if n, ok := answer[0].(int64); ok {
			return n, redisclient.Texts(answer[1:]), nil
		}
	}
	return 0, nil, errors.New("the answer does not begin with a number")
}

// SessionByID returns a session that has not ended. KindNotFound.
func (s *SessionStore) SessionByID(ctx context.Context, id signal.SessionID) (credential.Session, error) {
	fields, err := s.RDB.HGetAll(ctx, s.SessionKey(id)).Result()
	if err != nil {
		return credential.Session{}, redisclient.Failed(err, "read session")
	}
	if len(fields) == 0 {
		return credential.Session{}, signal.NotFound("session")
	}
	return decodeSession(id, fields)
}

// SessionByLocator returns the session whose refresh tokens have the locator.
// KindNotFound.
func (s *SessionStore) SessionByLocator(ctx context.Context, locator credential.Digest) (credential.Session, error) {
	id, err := s.RDB.Get(ctx, s.RefreshKey(locator.String())).Result()
	if errors.Is(err, redis.Nil) {
		return credential.Session{}, signal.NotFound("session")
	}
	if err != nil {
		return credential.Session{}, redisclient.Failed(err, "read refresh token")
	}
	return s.SessionByID(ctx, signal.SessionID(id))
}

// RotateSession replaces the refresh token whose digest is presented by that of next, and stores
// Refresh, RefreshUntil and KeepUntil of next. If presented is not the current token, it was
// used before: the session is ended, and the event that announces it is returned, which is to be
// settled. KindNotFound: the session has ended, or the token expired. KindUnavailable: it is not
// known which of the tokens is the current one; if only the replicas lack the change, it is taken
// back, so that presented stays valid.
func (s *SessionStore) RotateSession(ctx context.Context, next credential.Session, presented credential.Digest,
	now time.Time) ([]signal.Event, error) {
	event := newEvent(next.Account, signal.SessionEnded, string(next.ID))
	keys := []string{s.RefreshKey(next.Locator.String()), s.SessionKey(next.ID),
		s.SessionsOfKey(next.Account), s.OutboxKey()}
	type change func(context.Context, *redisclient.Lua, []string, ...any) (*redis.Cmd, error)
	run := func(do change, from, to credential.Digest) (*redis.Cmd, error) {
		return do(ctx, sessionRotateScript, keys, from.String(), to.String(), now.UnixMilli(),
			next.RefreshUntil.UnixMilli(), next.KeepUntil.UnixMilli(), string(next.ID), encodeAnnouncement(event))
	}
	done, err := run(s.apply, presented, next.Refresh)
	if !redisclient.Stands(err) && ctx.Err() == nil {
		// The token may be used up and only the reply lost. The script recognizes its own
		// change, so a second call saves the client's session.
		done, err = run(s.apply, presented, next.Refresh)
	}
	switch {
	case redisclient.Stands(err) && done.Val() == int64(-1):
		return []signal.Event{event}, redisclient.Failed(err, "rotate session")
	case errors.Is(err, redisclient.ErrReplicas) && done.Val() == int64(1):
		// The client keeps its token: using it again must not end the session.
		if _, e := run(s.end, next.Refresh, presented); !redisclient.Stands(e) {
			err = errors.Join(err, e)
		}
		return nil, redisclient.Failed(err, "rotate session")
	case err != nil:
		return nil, redisclient.Failed(err, "rotate session")
	case done.Val() == int64(0):
		return nil, signal.NotFound("session")
	}
	return nil, nil
}

// EndSession ends one session. It returns the event that announces it, which is to be settled, or
// none if it had ended before. The event with KindUnavailable: the session has ended, but may
// come back if the master is lost.
func (s *SessionStore) EndSession(ctx context.Context, account signal.AccountID, id signal.SessionID, now time.Time) (
	[]signal.Event, error) {
	event := newEvent(account, signal.SessionEnded, string(id))
	locator, err := s.RDB.HGet(ctx, s.SessionKey(id), "locator").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, redisclient.Failed(err, "read session")
	}
	var names sessionNames
	s.name(&names, id, locator)
	keys := names.after([]string{s.SessionsOfKey(account), s.OutboxKey()})
	ended, err := s.end(ctx, sessionEndScript, keys, names.afterArgs([]any{encodeAnnouncement(event), now.UnixMilli()})...)
	if redisclient.Stands(err) && ended.Val() == int64(1) {
		return []signal.Event{event}, redisclient.Failed(err, "end session")
	}
	return nil, redisclient.Failed(err, "end session")
}

// EndSessions ends all sessions of an account. It returns the events that announce it, which are to
// be settled: one for each, so that no clock decides which have ended, or one for all of more
// than sessionsAtOnce. With KindUnavailable they have ended, but may come back if the master is
// lost.
func (s *SessionStore) EndSessions(ctx context.Context, account signal.AccountID, now time.Time) ([]signal.Event, error) {
	event := newEvent(account, signal.SessionEnded, "")
	n, err := s.RDB.ZCard(ctx, s.SessionsOfKey(account)).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "count sessions")
	}
	if n <= sessionsAtOnce {
		return s.endOldest(ctx, event, 0, "", "", now)
	}
	ended, err := s.endOldest(ctx, event, 0, "", noSubject, now)
	if len(ended) == 0 {
		return nil, err
	}
	return []signal.Event{event}, err
}
