package persistence

import (
	"context"
	_ "embed"
	"errors"
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

// CreateSession begins a session after a right password, clears the failed logins
// of the email, and returns the zero time. If the email was locked meanwhile
// nothing is changed and it returns until when. KindConflict: the account is gone,
// or its password no longer has that version.
func (s *Store) CreateSession(ctx context.Context, n signal.Session, passwordVersion int64, email signal.Digest, now time.Time) (time.Time, error) {
	args := append([]any{string(n.ID), passwordVersion, now.UnixMilli(), n.KeepUntil.UnixMilli()}, encodeSession(n)...)
	until, err := sessionCreateScript.Run(ctx, s.rdb,
		[]string{accountKey(n.Account), sessionKey(n.ID), sessionsOfKey(n.Account), refreshKey(n.Locator.String()), lockKey(email.String())}, args...).Int64()
	if err != nil {
		return time.Time{}, credentialError("create session", err)
	}
	switch until {
	case 0:
		return time.Time{}, nil
	case -1:
		return time.Time{}, &signal.Error{Kind: signal.KindConflict, Code: "conflict", Message: "the account was changed meanwhile"}
	}
	return time.UnixMilli(until).UTC(), nil
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
	ended, err := sessionsEndScript.Run(ctx, s.rdb, []string{sessionsOfKey(account), outboxKey()},
		encodeAnnouncement(event), now.UnixMilli(), sessionKey(""), refreshKey("")).Int()
	if err != nil {
		return nil, credentialError("end sessions", err)
	}
	if ended == 0 {
		return nil, nil
	}
	return []signal.Event{event}, nil
}
