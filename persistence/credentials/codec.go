package credentials

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// The records of credentials are Redis hashes, since scripts compare and change single fields.
// Field "v" is the version of the record. Times are milliseconds since 1970, 0 for the zero
// time; digests are hex.

const credentialVersion = "1"

// encodeAccount returns fields and values of an account's record.
func encodeAccount(a credential.Account, p credential.Password) []any {
	return []any{"v", credentialVersion, "email", a.Email, "created", milliseconds(a.CreatedAt),
		"password", p.Hash, "password_version", p.Version}
}

func decodeAccount(id signal.AccountID, m map[string]string) (credential.Account, credential.Password, error) {
	r := recordReader{fields: m}
	r.version()
	a := credential.Account{ID: id, Email: r.text("email"), CreatedAt: r.time("created")}
	p := credential.Password{Hash: r.text("password"), Version: r.number("password_version")}
	if r.err != nil {
		return credential.Account{}, credential.Password{}, fmt.Errorf("decode account %s: %w", id, r.err)
	}
	return a, p, nil
}

// encodePublication returns the fields and values that a publication adds to its account's record.
func encodePublication(p credential.Publication) []any {
	return []any{"slug", p.Slug, "title", p.Title, "published", flag(p.Enabled), "show_open", flag(p.ShowOpen)}
}

// publicationFields are those of an account's record that decodePublication reads.
var publicationFields = []string{"v", "slug", "title", "published", "show_open"}

// decodePublication reads a publication from the record of its account.
func decodePublication(id signal.AccountID, m map[string]string) (credential.Publication, error) {
	r := recordReader{fields: m}
	r.version()
	p := credential.Publication{Account: id}
	if m["slug"] != "" {
		p.Slug, p.Title = m["slug"], r.text("title")
		p.Enabled, p.ShowOpen = r.number("published") == 1, r.number("show_open") == 1
	}
	if r.err != nil {
		return credential.Publication{}, fmt.Errorf("decode publication of account %s: %w", id, r.err)
	}
	return p, nil
}

// flag returns 1 for true, since Redis stores no booleans.
func flag(is bool) int {
	if is {
		return 1
	}
	return 0
}

// encodeSession returns fields and values of a session's record.
func encodeSession(s credential.Session) []any {
	return []any{"v", credentialVersion, "account", string(s.Account), "created", milliseconds(s.CreatedAt),
		"ends", milliseconds(s.EndsAt), "refresh_until", milliseconds(s.RefreshUntil),
		"keep_until", milliseconds(s.KeepUntil), "locator", s.Locator.String(), "refresh", s.Refresh.String()}
}

func decodeSession(id signal.SessionID, m map[string]string) (credential.Session, error) {
	r := recordReader{fields: m}
	r.version()
	s := credential.Session{ID: id, Account: signal.AccountID(r.text("account")), CreatedAt: r.time("created"),
		EndsAt: r.time("ends"), RefreshUntil: r.time("refresh_until"), KeepUntil: r.time("keep_until"),
		Locator: r.digest("locator"), Refresh: r.digest("refresh")}
	if r.err != nil {
		return credential.Session{}, fmt.Errorf("decode session %s: %w", id, r.err)
	}
	return s, nil
}

// encodeKey returns the fields and values of an API key's record that keys created together share: all but its id, its
// name and its prefix.
func encodeKey(k credential.APIKey) []any {
	fields := []any{"v", credentialVersion, "account", string(k.Account), "scopes", int64(k.Scopes),
		"created", milliseconds(k.CreatedAt), "expires", milliseconds(k.ExpiresAt), "used", milliseconds(k.LastUsedAt)}
	if k.View != nil {
		fields = append(fields, "view", k.View.String(), "connections", k.MaxConnections)
	}
	return fields
}

func decodeKey(m map[string]string) (credential.APIKey, error) {
	r := recordReader{fields: m}
	r.version()
	k := credential.APIKey{ID: signal.KeyID(r.text("id")), Account: signal.AccountID(r.text("account")),
		Name: r.text("name"), Prefix: r.text("prefix"), CreatedAt: r.time("created"), ExpiresAt: r.time("expires"),
		LastUsedAt: r.time("used")}
	scopes := r.number("scopes")
	if scopes < 0 || scopes > int64(signal.AllScopes) {
		r.fail("scopes")
	}
	k.Scopes = signal.ScopeSet(scopes)
	if text, ok := m["view"]; ok {
		var err error
		if k.View, err = signal.ParseView(text); err != nil {
			r.fail("view")
		}
		if k.MaxConnections = int(r.number("connections")); k.MaxConnections < 1 {
			r.fail("connections")
		}
	}
	if r.err != nil {
		return credential.APIKey{}, fmt.Errorf("decode API key %s: %w", k.ID, r.err)
	}
	return k, nil
}

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// recordReader reads the fields of one record and keeps the first error.
type recordReader struct {
	fields map[string]string
	err    error
}

// fail records that a field is missing or not valid, without its value, which may be secret.
func (r *recordReader) fail(name string) {
	if r.err == nil {
		r.err = fmt.Errorf("field %q is missing or not valid", name)
	}
}

func (r *recordReader) version() {
	if v := r.fields["v"]; v != credentialVersion && r.err == nil {
		r.err = fmt.Errorf("version %q is not known: this process reads version %s", v, credentialVersion)
	}
}

func (r *recordReader) text(name string) string {
	s := r.fields[name]
	if s == "" {
		r.fail(name)
	}
	return s
}

func (r *recordReader) number(name string) int64 {
	n, err := strconv.ParseInt(r.fields[name], 10, 64)
	if err != nil {
		r.fail(name)
	}
	return n
}

func (r *recordReader) time(name string) time.Time {
	ms := r.number(name)
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func (r *recordReader) digest(name string) credential.Digest {
	var d credential.Digest
	b, err := hex.DecodeString(r.fields[name])
	if err != nil || len(b) != len(d) {
		r.fail(name)
		return credential.Digest{}
	}
	return credential.Digest(b)
}

// An announcement is an event of a credential change in the outbox: version, type, account,
// subject and event id, separated by spaces. The subject is noSubject where the event has none.
// The event id makes it unique, so that settling one announcement leaves a later one of the
// same kind.
const noSubject = "*"

// newEvent returns an event of a credential change. The subject may be empty.
func newEvent(account signal.AccountID, t signal.EventType, subject string) signal.Event {
	return signal.Event{ID: signal.NewEventID(), Account: account, Type: t, Subject: subject}
}

// encodeAnnouncement returns the announcement of e.
func encodeAnnouncement(e signal.Event) string {
	before, after := announcementAround(e)
	return before + cmp.Or(e.Subject, noSubject) + after
}

// announcementAround returns the parts before and after the subject, for a script that knows the
// subjects.
func announcementAround(e signal.Event) (before, after string) {
	return credentialVersion + " " + string(e.Type) + " " + string(e.Account) + " ", " " + string(e.ID)
}

func decodeAnnouncement(s string) (signal.Event, error) {
	parts := strings.Split(s, " ")
	if len(parts) != 5 || parts[0] != credentialVersion || parts[2] == "" || parts[3] == "" {
		return signal.Event{}, fmt.Errorf("decode announcement %q: not of the known form", s)
	}
	e := signal.Event{Type: signal.EventType(parts[1]), Account: signal.AccountID(parts[2]), Subject: parts[3],
		ID: signal.EventID(parts[4])}
	if e.Subject == noSubject {
		e.Subject = ""
	}
	if !e.Type.Internal() {
		return signal.Event{}, fmt.Errorf("decode announcement %q: type is not internal", s)
	}
	return e, nil
}
