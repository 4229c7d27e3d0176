package credentials

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// beforeScripts runs the functions in turn, each once and before the next script.
type beforeScripts struct{ next []func() }

// DialHook implements redis.Hook.
func (*beforeScripts) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*beforeScripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (b *beforeScripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") && len(b.next) > 0 {
			f := b.next[0]
			b.next = b.next[1:]
			f()
		}
		return next(ctx, cmd)
	}
}

// TestWhatIsAddedMeanwhileEndsToo adds keys and sessions between the reading of the names and the
// script to which they are given.
func TestWhatIsAddedMeanwhileEndsToo(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Store, signal.AccountID) ([]signal.Event, error){
		"account": func(s *Store, a signal.AccountID) ([]signal.Event, error) {
			return s.DeleteAccount(t.Context(), a, nowMS())
		},
		"password": func(s *Store, a signal.AccountID) ([]signal.Event, error) {
			return s.SetPassword(t.Context(), a, "next", 1, "", nowMS())
		},
		"sessions": func(s *Store, a signal.AccountID) ([]signal.Event, error) {
			return s.EndSessions(t.Context(), a, nowMS())
		},
		"login": func(s *Store, a signal.AccountID) ([]signal.Event, error) {
			n := newSession(a, signal.NewSessionIDAt(nowMS()), nowMS(), time.Hour)
			events, _, err := s.CreateSession(t.Context(), n, 1, credential.DigestOf("a@example.com"), 1, nowMS())
			return events, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other, server := credentialStore(t)
			a := addAccount(t, other, "a@example.com").ID
			addSession(t, other, a)
			s := openStore(t, redisclient.Options{URL: server.URL()})
			add := func() { addSession(t, other, a) }
			s.RDB.AddHook(&beforeScripts{next: []func(){add, add, func() { addKey(t, other, a, "late") }}})
			if _, err := end(s, a); err != nil {
				t.Fatal(err)
			}
			k := redisclient.NewKeys(1)
			count := func(pattern string) int { return len(server.Client().Keys(t.Context(), pattern).Val()) }
			got := fmt.Sprint(count(k.SessionKey("*")), count(k.RefreshKey("*")), count(k.APIKeyKey("*")))
			want := map[string]string{"account": "0 0 0", "password": "0 0 1", "sessions": "0 0 1", "login": "1 1 1"}[name]
			if got != want {
				t.Errorf("%s sessions, refresh tokens and keys are left, want %s", got, want)
			}
		})
	}
}
