package persistence

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/redis/go-redis/v9"
)

//go:embed scripts/session_create.lua
var sessionCreateText string

//go:embed scripts/session_rotate.lua
var sessionRotateText string

//go:embed scripts/session_end.lua
var sessionEndText string

//go:embed scripts/sessions_end.lua
var sessionsEndText string

var (
	sessionCreateScript = redis.NewScript(sessionCreateText)
	sessionRotateScript = redis.NewScript(sessionRotateText)
	sessionEndScript    = redis.NewScript(sessionEndText)
	sessionsEndScript   = redis.NewScript(sessionsEndText)
)

// sessionsAtOnce is how many sessions one script ends. Redis does nothing else
// meanwhile, so more of them take several scripts.
const sessionsAtOnce = 500

// CreateSession begins a session after a right password and clears the failed logins
// of the email. So that the account has no more than most sessions, those end whose
// own end is nearest; it returns the events that announce them, unsettled. If the
// email was locked meanwhile nothing is changed and it returns until when.
// KindConflict: the account is gone, or its password no longer has that version.
func (s *Store) CreateSession(ctx context.Context, n signal.Session, passwordVersion int64, email signal.Digest, most int, now time.Time) (
	ended []signal.Event, lockedUntil time.Time, err error) {
	event := signal.Event{ID: signal.NewEventID(), Account: n.Account, Type: signal.SessionEnded}
	before, after := announcementAround(event)
	args := append([]any{string(n.ID), passwordVersion, now.UnixMilli(), n.KeepUntil.UnixMilli(), most, sessionsAtOnce,
		sessionKey(""), refreshKey(""), before, after}, encodeSession(n)...)
	keys := []string{accountKey(n.Account), sessionKey(n.ID), sessionsOfKey(n.Account), refreshKey(n.Locator.String()),
		lockKey(email.String()), outboxKey()}
	for {
		answer, err := sessionCreateScript.Run(ctx, s.rdb, keys, args...).Slice()
		if err != nil {
			return nil, time.Time{}, credentialError("create session", err)
		}
		code, ids, err := numberAndTexts(answer)
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("create session: %w", err)
		}
		switch code {
		case 0:
			return append(ended, endedEvents(event, ids)...), time.Time{}, nil
		case -1:
			return ended, time.Time{}, &signal.Error{Kind: signal.KindConflict, Code: "conflict", Message: "the account was changed meanwhile"}
		case -2:
			more, err := s.endOldest(ctx, event, most, "", "", now)
			if err != nil {
				return nil, time.Time{}, err
			}
			ended = append(ended, more...)
		default:
			return ended, time.UnixMilli(code).UTC(), nil
		}
	}
}

// endOldest ends sessions of the account of event, those first whose own end is
// nearest, by as many scripts as it takes, until at most left are there. The session
// keep stays; with one, left must be at least 1. Each is announced by event with the
// session as subject, or all by one event with the given subject.
func (s *Store) endOldest(ctx context.Context, event signal.Event, left int, keep signal.SessionID, subject string, now time.Time) ([]signal.Event, error) {
	before, after := announcementAround(event)
	var ended []signal.Event
	for {
		answer, err := sessionsEndScript.Run(ctx, s.rdb, []string{sessionsOfKey(event.Account), outboxKey()}, now.UnixMilli(), sessionsAtOnce, left,
			string(keep), sessionKey(""), refreshKey(""), before, after, subject).Slice()
		if err != nil {
			return nil, credentialError("end sessions", err)
		}
		over, ids, err := numberAndTexts(answer)
		if err != nil {
			return nil, fmt.Errorf("end sessions: %w", err)
		}
		ended = append(ended, endedEvents(event, ids)...)
		if over <= 0 {
			return ended, nil
		}
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
func numberAndTexts(answer []any) (int64, []string, error) {
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
func (s *Store) SessionByID(ctx context.Context, id signal.SessionID) (signal.Session, error) {
	fields, err := s.rdb.HGetAll(ctx, sessionKey(id)).Result()
	if err != nil {
		return signal.Session{}, credentialError("read session", err)
	}
	if len(fields) == 0 {
		return signal.Session{}, signal.NotFound("session")
	}
	return decodeSession(id, fields)
}

// SessionByLocator returns the session whose refresh tokens have the locator.
// KindNotFound.
func (s *Store) SessionByLocator(ctx context.Context, locator signal.Digest) (signal.Session, error) {
	id, err := s.rdb.Get(ctx, refreshKey(locator.String())).Result()
	if errors.Is(err, redis.Nil) {
		return signal.Session{}, signal.NotFound("session")
	}
	if err != nil {
		return signal.Session{}, credentialError("read refresh token", err)
	}
	return s.SessionByID(ctx, signal.SessionID(id))
}

// RotateSession replaces the refresh token whose digest is presented by that of
// next, which is the session as it shall be; only its Refresh, RefreshUntil and
// KeepUntil change. If presented is not the current token, it was used before:
// the session is ended, and the event that announces it is returned, unsettled.
// KindNotFound: the session has ended, or the token expired.
func (s *Store) RotateSession(ctx context.Context, next signal.Session, presented signal.Digest, now time.Time) ([]signal.Event, error) {
	event := signal.Event{ID: signal.NewEventID(), Account: next.Account, Type: signal.SessionEnded, Subject: string(next.ID)}
	run := func() (int, error) {
		return sessionRotateScript.Run(ctx, s.rdb,
			[]string{refreshKey(next.Locator.String()), sessionKey(next.ID), sessionsOfKey(next.Account), outboxKey()},
			presented.String(), next.Refresh.String(), now.UnixMilli(), next.RefreshUntil.UnixMilli(), next.KeepUntil.UnixMilli(),
			string(next.ID), encodeAnnouncement(event)).Int()
	}
	done, err := run()
	if err != nil && ctx.Err() == nil {
		// The reply may be lost and the token used up. The script knows its own work
		// again, so asking once more saves the client's session.
		done, err = run()
	}
	if err != nil {
		return nil, credentialError("rotate session", err)
	}
	switch done {
	case 1:
		return nil, nil
	case 0:
		return nil, signal.NotFound("session")
	}
	return []signal.Event{event}, nil
}

// EndSession ends one session. It returns the event that announces it, unsettled,
// or none if it had ended before.
func (s *Store) EndSession(ctx context.Context, account signal.AccountID, id signal.SessionID, now time.Time) ([]signal.Event, error) {
	event := signal.Event{ID: signal.NewEventID(), Account: account, Type: signal.SessionEnded, Subject: string(id)}
	ended, err := sessionEndScript.Run(ctx, s.rdb, []string{sessionKey(id), sessionsOfKey(account), outboxKey()},
		string(id), encodeAnnouncement(event), now.UnixMilli(), refreshKey("")).Int()
	if err != nil {
		return nil, credentialError("end session", err)
	}
	if ended == 0 {
		return nil, nil
	}
	return []signal.Event{event}, nil
}

// EndSessions ends all sessions of an account. It returns the event that
// announces it, unsettled, or none if there was no session.
func (s *Store) EndSessions(ctx context.Context, account signal.AccountID, now time.Time) ([]signal.Event, error) {
	event := signal.Event{ID: signal.NewEventID(), Account: account, Type: signal.SessionEnded}
	ended, err := s.endOldest(ctx, event, 0, "", noSubject, now)
	if err != nil || len(ended) == 0 {
		return nil, err
	}
	return []signal.Event{event}, nil
}
