package credentials

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// sessionRemoveText is the function removeSession, which precedes scripts that end sessions.
//
//go:embed scripts/shared/session_remove.lua
var sessionRemoveText string

//go:embed scripts/session_create.lua
var sessionCreateText string

//go:embed scripts/session_rotate.lua
var sessionRotateText string

//go:embed scripts/session_end.lua
var sessionEndText string

//go:embed scripts/sessions_end.lua
var sessionsEndText string

var (
	sessionCreateScript = redis.NewScript(sessionRemoveText + sessionCreateText)
	sessionRotateScript = redis.NewScript(sessionRotateText)
	sessionEndScript    = redis.NewScript(sessionRemoveText + sessionEndText)
	sessionsEndScript   = redis.NewScript(sessionRemoveText + sessionsEndText)
)

// sessionsAtOnce is how many sessions one script ends. Redis does nothing else
// meanwhile, so more of them take several scripts.
const sessionsAtOnce = 500

// CreateSession begins a session after a right password and clears the failed logins
// of the email. So that the account has no more than most sessions, those end whose
// own end is nearest; it returns the events that announce them, unsettled. If the
// email was locked meanwhile nothing is changed and it returns until when.
// KindConflict: the account is gone, or its password no longer has that version.
func (s *Store) CreateSession(ctx context.Context, n credential.Session, passwordVersion int64, email credential.Digest, most int, now time.Time) (
	ended []signal.Event, lockedUntil time.Time, err error) {
	event := signal.Event{ID: signal.NewEventID(), Account: n.Account, Type: signal.SessionEnded}
	before, after := announcementAround(event)
	args := append([]any{string(n.ID), passwordVersion, now.UnixMilli(), n.KeepUntil.UnixMilli(), most, sessionsAtOnce,
		redisclient.SessionKey(""), redisclient.RefreshKey(""), before, after}, encodeSession(n)...)
	keys := []string{redisclient.AccountKey(n.Account), redisclient.SessionKey(n.ID), redisclient.SessionsOfKey(n.Account), redisclient.RefreshKey(n.Locator.String()),
		redisclient.LockKey(email.String()), redisclient.OutboxKey()}
	for {
		answer, unconfirmed := s.Change(ctx, redisclient.ConfirmAuthKey(), sessionCreateScript, keys, args...)
		if !redisclient.Stands(unconfirmed) {
			return ended, time.Time{}, credentialError("create session", unconfirmed)
		}
		code, ids, err := numberAndTexts(answer.Val())
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("create session: %w", err)
		}
		switch code {
		case 0:
			return append(ended, endedEvents(event, ids)...), time.Time{}, credentialError("create session", unconfirmed)
		case -1:
			return ended, time.Time{}, &signal.Error{Kind: signal.KindConflict, Code: "conflict", Message: "the account was changed meanwhile"}
		case -2:
			more, err := s.endOldest(ctx, event, most, "", "", now)
			ended = append(ended, more...)
			if err != nil {
				return ended, time.Time{}, err
			}
		default:
			return ended, time.UnixMilli(code).UTC(), nil
		}
	}
}

// endOldest ends sessions of the account of event, those first whose own end is
// nearest, by as many scripts as it takes, until at most left are there. The session
// keep stays; with one, left must be at least 1. Each is announced by event with the
// session as subject, or all by one event with the given subject. Events with
// KindUnavailable: those sessions have ended, but may come back if the master is lost.
func (s *Store) endOldest(ctx context.Context, event signal.Event, left int, keep signal.SessionID, subject string, now time.Time) ([]signal.Event, error) {
	before, after := announcementAround(event)
	var ended []signal.Event
	for previous := int64(math.MaxInt64); ; {
		answer, unconfirmed := s.Change(ctx, redisclient.ConfirmAuthKey(), sessionsEndScript,
			[]string{redisclient.SessionsOfKey(event.Account), redisclient.OutboxKey()}, now.UnixMilli(),
			sessionsAtOnce, left, string(keep), redisclient.SessionKey(""), redisclient.RefreshKey(""), before, after, subject)
		if !redisclient.Stands(unconfirmed) {
			return ended, credentialError("end sessions", unconfirmed)
		}
		over, ids, err := numberAndTexts(answer.Val())
		if err != nil {
			return ended, fmt.Errorf("end sessions: %w", err)
		}
		ended = append(ended, endedEvents(event, ids)...)
		if over <= 0 { // the last write covers those before
			return ended, credentialError("end sessions", unconfirmed)
		}
		if len(ids) == 0 && over >= previous {
			return ended, fmt.Errorf("end sessions: %d are left and none can be ended", over)
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
	answer, _ := reply.([]any)
	texts := make([]string, max(0, len(answer)-1))
	for i := range texts {
		texts[i], _ = answer[i+1].(string)
	}
	if len(answer) > 0 {
		if n, ok := answer[0].(int64); ok {
			return n, texts, nil
		}
	}
	return 0, nil, errors.New("the answer does not begin with a number")
}

// SessionByID returns a session that has not ended. KindNotFound.
func (s *Store) SessionByID(ctx context.Context, id signal.SessionID) (credential.Session, error) {
	fields, err := s.RDB.HGetAll(ctx, redisclient.SessionKey(id)).Result()
	if err != nil {
		return credential.Session{}, credentialError("read session", err)
	}
	if len(fields) == 0 {
		return credential.Session{}, signal.NotFound("session")
	}
	return decodeSession(id, fields)
}

// SessionByLocator returns the session whose refresh tokens have the locator.
// KindNotFound.
func (s *Store) SessionByLocator(ctx context.Context, locator credential.Digest) (credential.Session, error) {
	id, err := s.RDB.Get(ctx, redisclient.RefreshKey(locator.String())).Result()
	if errors.Is(err, redis.Nil) {
		return credential.Session{}, signal.NotFound("session")
	}
	if err != nil {
		return credential.Session{}, credentialError("read refresh token", err)
	}
	return s.SessionByID(ctx, signal.SessionID(id))
}

// RotateSession replaces the refresh token whose digest is presented by that of
// next, which is the session as it shall be; only its Refresh, RefreshUntil and
// KeepUntil change. If presented is not the current token, it was used before:
// the session is ended, and the event that announces it is returned, unsettled.
// KindNotFound: the session has ended, or the token expired. KindUnavailable: it is not
// known which of the tokens is the current one; where only the replicas lack the change,
// it is taken back, so that presented stays it.
func (s *Store) RotateSession(ctx context.Context, next credential.Session, presented credential.Digest, now time.Time) ([]signal.Event, error) {
	event := signal.Event{ID: signal.NewEventID(), Account: next.Account, Type: signal.SessionEnded, Subject: string(next.ID)}
	run := func(from, to credential.Digest) (*redis.Cmd, error) {
		return s.Change(ctx, redisclient.ConfirmAuthKey(), sessionRotateScript,
			[]string{redisclient.RefreshKey(next.Locator.String()), redisclient.SessionKey(next.ID), redisclient.SessionsOfKey(next.Account), redisclient.OutboxKey()},
			from.String(), to.String(), now.UnixMilli(), next.RefreshUntil.UnixMilli(), next.KeepUntil.UnixMilli(),
			string(next.ID), encodeAnnouncement(event))
	}
	done, err := run(presented, next.Refresh)
	if !redisclient.Stands(err) && ctx.Err() == nil {
		// The reply may be lost and the token used up. The script knows its own work
		// again, so asking once more saves the client's session.
		done, err = run(presented, next.Refresh)
	}
	switch {
	case redisclient.Stands(err) && done.Val() == int64(-1):
		return []signal.Event{event}, credentialError("rotate session", err)
	case errors.Is(err, redisclient.ErrReplicas) && done.Val() == int64(1):
		// The client keeps the token that it has: to use it again must not end its session.
		if _, e := run(next.Refresh, presented); !redisclient.Stands(e) {
			err = errors.Join(err, e)
		}
		return nil, credentialError("rotate session", err)
	case err != nil:
		return nil, credentialError("rotate session", err)
	case done.Val() == int64(0):
		return nil, signal.NotFound("session")
	}
	return nil, nil
}

// EndSession ends one session. It returns the event that announces it, unsettled,
// or none if it had ended before. The event with KindUnavailable: it has ended, but may
// come back if the master is lost.
func (s *Store) EndSession(ctx context.Context, account signal.AccountID, id signal.SessionID, now time.Time) ([]signal.Event, error) {
	event := signal.Event{ID: signal.NewEventID(), Account: account, Type: signal.SessionEnded, Subject: string(id)}
	ended, err := s.Change(ctx, redisclient.ConfirmAuthKey(), sessionEndScript,
		[]string{redisclient.SessionKey(id), redisclient.SessionsOfKey(account), redisclient.OutboxKey()}, string(id), encodeAnnouncement(event), now.UnixMilli(), redisclient.RefreshKey(""))
	if redisclient.Stands(err) && ended.Val() == int64(1) {
		return []signal.Event{event}, credentialError("end session", err)
	}
	return nil, credentialError("end session", err)
}

// EndSessions ends all sessions of an account. It returns the events that announce
// it, unsettled: one for each, so that no clock decides which have ended, or one for all
// of more than sessionsAtOnce. With KindUnavailable they have ended, but may come back if
// the master is lost.
func (s *Store) EndSessions(ctx context.Context, account signal.AccountID, now time.Time) ([]signal.Event, error) {
	event := signal.Event{ID: signal.NewEventID(), Account: account, Type: signal.SessionEnded}
	n, err := s.RDB.ZCard(ctx, redisclient.SessionsOfKey(account)).Result()
	if err != nil {
		return nil, credentialError("count sessions", err)
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
