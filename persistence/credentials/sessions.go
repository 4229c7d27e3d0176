package credentials

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// CreateSession begins a session after a correct password and clears the failed logins of the
// email. If the account then has more than maxSessions, those whose own end is nearest are ended;
// it returns the events that announce them, which are to be settled. If the email was locked
// meanwhile nothing is changed and it returns until when. KindConflict: the account was deleted,
// or its password no longer has that version.
func (s *Store) CreateSession(ctx context.Context, n credential.Session, passwordVersion int64, email credential.Digest,
	maxSessions int, now time.Time) (ended []signal.Event, lockedUntil time.Time, err error) {
	event := newEvent(n.Account, signal.SessionEnded, "")
	before, after := announcementAround(event)
	args := append([]any{string(n.ID), passwordVersion, now.UnixMilli(), n.KeepUntil.UnixMilli(), maxSessions,
		sessionsAtOnce, s.SessionKey(""), s.RefreshKey(""), before, after}, encodeSession(n)...)
	keys := []string{s.AccountKey(n.Account), s.SessionKey(n.ID),
		s.SessionsOfKey(n.Account), s.RefreshKey(n.Locator.String()),
		s.LockKey(email.String()), s.OutboxKey()}
	for {
		answer, unconfirmed := s.apply(ctx, sessionCreateScript, keys, args...)
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
		default:
			return ended, time.UnixMilli(code).UTC(), nil
		}
	}
}

// endOldest ends sessions of the account of event, in the order of their own ends and by as many
// scripts as it takes, until at most left remain. The session keep stays; with one, left must be
// at least 1. Each is announced by event with the session as subject, or all by one event with
// the given subject. Events with KindUnavailable: those sessions have ended, but may come back
// if the master is lost.
func (s *Store) endOldest(ctx context.Context, event signal.Event, left int, keep signal.SessionID, subject string,
	now time.Time) ([]signal.Event, error) {
	before, after := announcementAround(event)
	keys := []string{s.SessionsOfKey(event.Account), s.OutboxKey()}
	args := []any{now.UnixMilli(), sessionsAtOnce, left, string(keep), s.SessionKey(""),
		s.RefreshKey(""), before, after, subject}
	var ended []signal.Event
	for previous := int64(math.MaxInt64); ; {
		answer, unconfirmed := s.end(ctx, sessionsEndScript, keys, args...)
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
		if len(ids) == 0 && over >= previous {
			return ended, fmt.Errorf("end sessions: %d too many are left and cannot be ended", over)
		}
		previous = over
	}
}

// endedEvents returns event for each session.
func endedEvents(event signal.Event, sessions []string) []signal.Event {
	events := make([]signal.Event, len(sessions))
	for i, id := range sessions {
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
func (s *Store) SessionByID(ctx context.Context, id signal.SessionID) (credential.Session, error) {
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
func (s *Store) SessionByLocator(ctx context.Context, locator credential.Digest) (credential.Session, error) {
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
func (s *Store) RotateSession(ctx context.Context, next credential.Session, presented credential.Digest,
	now time.Time) ([]signal.Event, error) {
	event := newEvent(next.Account, signal.SessionEnded, string(next.ID))
	keys := []string{s.RefreshKey(next.Locator.String()), s.SessionKey(next.ID),
		s.SessionsOfKey(next.Account), s.OutboxKey()}
	type change func(context.Context, *redis.Script, []string, ...any) (*redis.Cmd, error)
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
func (s *Store) EndSession(ctx context.Context, account signal.AccountID, id signal.SessionID, now time.Time) (
	[]signal.Event, error) {
	event := newEvent(account, signal.SessionEnded, string(id))
	keys := []string{s.SessionKey(id), s.SessionsOfKey(account), s.OutboxKey()}
	ended, err := s.end(ctx, sessionEndScript, keys, string(id), encodeAnnouncement(event), now.UnixMilli(),
		s.RefreshKey(""))
	if redisclient.Stands(err) && ended.Val() == int64(1) {
		return []signal.Event{event}, redisclient.Failed(err, "end session")
	}
	return nil, redisclient.Failed(err, "end session")
}

// EndSessions ends all sessions of an account. It returns the events that announce it, which are to
// be settled: one for each, so that no clock decides which have ended, or one for all of more
// than sessionsAtOnce. With KindUnavailable they have ended, but may come back if the master is
// lost.
func (s *Store) EndSessions(ctx context.Context, account signal.AccountID, now time.Time) ([]signal.Event, error) {
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
