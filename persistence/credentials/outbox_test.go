package credentials

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// TestAnnouncementsAreDueByTheTimeOfTheChange: other processes leave them for some seconds to the
// one that made the change, before they append them.
func TestAnnouncementsAreDueByTheTimeOfTheChange(t *testing.T) {
	t.Parallel()
	s, _ := credentialStore(t)
	ctx, at := t.Context(), nowMS()
	a := func(name string) signal.AccountID { return addAccount(t, s, name+"@example.com").ID }
	changed, left, user := a("changed"), a("left"), a("user")
	addSession(t, s, changed)
	key, _ := addKey(t, s, user, "key")
	one, reused := addSession(t, s, user), addSession(t, s, user)
	more := one
	more.ID, more.Locator = signal.NewSessionIDAt(time.Now()), credential.DigestOf("more")
	for name, change := range map[string]func() ([]signal.Event, error){
		"end session": func() ([]signal.Event, error) { return s.EndSession(ctx, user, one.ID, at) },
		"reuse token": func() ([]signal.Event, error) {
			return s.RotateSession(ctx, nextOf(reused, "next"), credential.DigestOf("used"), at)
		},
		"revoke key":     func() ([]signal.Event, error) { return s.RevokeKey(ctx, user, key.ID, at) },
		"set password":   func() ([]signal.Event, error) { return s.SetPassword(ctx, changed, "new", 1, "", at) },
		"delete account": func() ([]signal.Event, error) { return s.DeleteAccount(ctx, left, at) },
		"end sessions": func() ([]signal.Event, error) {
			n := a("sessions")
			addSession(t, s, n)
			return s.EndSessions(ctx, n, at)
		},
		"one login too many": func() ([]signal.Event, error) {
			more.Account = a("more")
			addSession(t, s, more.Account)
			ended, _, err := s.CreateSession(ctx, more, 1, credential.DigestOf("nobody"), 1, at)
			return ended, err
		},
	} {
		events, err := change()
		if err != nil || len(events) != 1 {
			t.Errorf("%s: %d events, %v", name, len(events), err)
			continue
		}
		for before, want := range map[time.Duration]int{-time.Millisecond: 0, 0: 1} {
			if due, err := s.Unsettled(ctx, at.Add(before), 10); err != nil || len(due) != want {
				t.Errorf("%s: %d announcements are due %s after it, want %d; %v", name, len(due), before, want, err)
			}
		}
		if err := s.Settle(ctx, events); err != nil {
			t.Fatal(err)
		}
	}
}
