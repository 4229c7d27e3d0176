package credentials

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// fieldsOf returns the hash that Redis would keep of fields and values.
func fieldsOf(args []any) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(args); i += 2 {
		m[args[i].(string)] = fmt.Sprint(args[i+1])
	}
	return m
}

// keyRecord returns fields and values of an API key's record, as keys_create.lua writes them.
func keyRecord(k credential.APIKey) []any {
	return append([]any{"id", k.ID, "name", k.Name, "prefix", k.Prefix}, encodeKey(k)...)
}

// newSession returns a session that is not stored, with a refresh token for the given time.
func newSession(account signal.AccountID, id signal.SessionID, at time.Time, lasts time.Duration) credential.Session {
	return credential.Session{ID: id, Account: account, CreatedAt: at, EndsAt: at.Add(2 * time.Hour),
		RefreshUntil: at.Add(lasts), KeepUntil: at.Add(lasts),
		Locator: credential.DigestOf("locator" + string(id)), Refresh: credential.DigestOf("refresh" + string(id))}
}

func TestCredentialRecordsRoundTrip(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 9, 30, 0, 123e6, time.UTC)
	a := credential.Account{ID: "acc_1", Email: "a@example.com", CreatedAt: at}
	p := credential.Password{Hash: "$argon2id$…", Version: 3}
	gotA, gotP, err := decodeAccount(a.ID, fieldsOf(encodeAccount(a, p)))
	if d := cmp.Diff(a, gotA) + cmp.Diff(p, gotP); err != nil || d != "" {
		t.Errorf("account: %v (-want +got):\n%s", err, d)
	}
	n := newSession("acc_1", "ses_1", at, time.Hour)
	n.KeepUntil, n.EndsAt = at.Add(2*time.Hour), at.Add(3*time.Hour)
	gotN, err := decodeSession(n.ID, fieldsOf(encodeSession(n)))
	wantEqual(t, "session", err, n, gotN)
	k := credential.APIKey{ID: "key_1", Account: "acc_1", Name: "name", Prefix: "ask_1234",
		Scopes: signal.ScopesOf(signal.WebhooksManage), CreatedAt: at}
	gotK, err := decodeKey(fieldsOf(keyRecord(k)))
	wantEqual(t, "key", err, k, gotK)
	k.View, k.MaxConnections = signal.NewView(signal.Names{}, signal.NamesOf("BTC"), signal.NamesOf()), 5
	if gotK, err := decodeKey(fieldsOf(keyRecord(k))); err != nil || gotK != k {
		t.Errorf("reader: %v, %+v", err, gotK)
	}
	public := credential.Publication{Account: "acc_1", Slug: "slug", Title: "title", Enabled: true, ShowOpen: true}
	gotPublic, err := decodePublication("acc_1", fieldsOf(append(encodeAccount(a, p), encodePublication(public)...)))
	wantEqual(t, "publication", err, public, gotPublic)
	for _, e := range []signal.Event{
		{ID: "evt_1", Account: "acc_1", Type: signal.KeyRevoked, Subject: "key_1"},
		{ID: "evt_1", Account: "acc_1", Type: signal.AccountDeleted},
	} {
		got, err := decodeAnnouncement(encodeAnnouncement(e))
		wantEqual(t, "announcement", err, e, got)
	}
}

func TestCredentialRecordsRefuseOtherVersions(t *testing.T) {
	t.Parallel()
	k := credential.APIKey{ID: "key_1", Account: "acc_1", Name: "name", Prefix: "p", CreatedAt: time.Now()}
	good := fieldsOf(keyRecord(k))
	if _, err := decodeKey(good); err != nil {
		t.Fatal(err)
	}
	for field, bad := range map[string]string{"v": "2", "account": "", "scopes": "16", "created": "x", "used": ""} {
		m := maps.Clone(good)
		m[field] = bad
		if _, err := decodeKey(m); err == nil {
			t.Errorf("%s=%q is accepted", field, bad)
		}
	}
	if _, err := decodeAnnouncement("1 signal.created acc_1 sig_1 evt_1"); err == nil {
		t.Error("an announcement of a public event is accepted")
	}
}

func FuzzCredentialRecords(f *testing.F) {
	at := time.UnixMilli(1795253400000)
	for _, args := range [][]any{
		encodeAccount(credential.Account{Email: "a", CreatedAt: at}, credential.Password{Hash: "h", Version: 1}),
		append(encodeAccount(credential.Account{Email: "a", CreatedAt: at}, credential.Password{Hash: "h", Version: 1}),
			encodePublication(credential.Publication{Slug: "s", Title: "t", Enabled: true})...),
		encodeSession(newSession("acc_1", "ses_1", at, time.Hour)),
		keyRecord(credential.APIKey{ID: "key_1", Account: "acc_1", Name: "n", Prefix: "p", CreatedAt: at}),
		keyRecord(credential.APIKey{ID: "key_1", Account: "acc_1", Name: "n", Prefix: "p", CreatedAt: at, MaxConnections: 1,
			View: signal.NewView(signal.NamesOf("seo"), signal.Names{}, signal.NamesOf())}),
	} {
		text, err := json.Marshal(fieldsOf(args))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), "1 key.revoked acc_1 key_1 evt_1")
	}
	f.Fuzz(func(t *testing.T, fields, announcement string) {
		if e, err := decodeAnnouncement(announcement); err == nil {
			if again, err := decodeAnnouncement(encodeAnnouncement(e)); err != nil || cmp.Diff(e, again) != "" {
				t.Errorf("announcement %q reads back as %+v, %v", announcement, again, err)
			}
		}
		var m map[string]string
		if json.Unmarshal([]byte(fields), &m) != nil {
			return
		}
		if a, p, err := decodeAccount("acc_1", m); err == nil {
			again, pass, err := decodeAccount("acc_1", fieldsOf(encodeAccount(a, p)))
			if err != nil || again != a || pass != p {
				t.Errorf("account reads back as %+v, %v", again, err)
			}
		}
		if n, err := decodeSession("ses_1", m); err == nil {
			if again, err := decodeSession("ses_1", fieldsOf(encodeSession(n))); err != nil || again != n {
				t.Errorf("session reads back as %+v, %v", again, err)
			}
		}
		if p, err := decodePublication("acc_1", m); err == nil && p.Slug != "" {
			written := append(encodePublication(p), "v", credentialVersion)
			if again, err := decodePublication("acc_1", fieldsOf(written)); err != nil || again != p {
				t.Errorf("publication reads back as %+v, %v", again, err)
			}
		}
		if k, err := decodeKey(m); err == nil {
			if again, err := decodeKey(fieldsOf(keyRecord(k))); err != nil || again != k {
				t.Errorf("key reads back as %+v, %v", again, err)
			}
		} else if strings.Contains(err.Error(), "password") {
			t.Errorf("error names a secret: %v", err)
		}
	})
}
