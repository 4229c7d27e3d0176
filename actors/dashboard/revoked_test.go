package dashboard

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestWhichSessionsEndWithAll: those that began until the millisecond of the event.
func TestWhichSessionsEndWithAll(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_795_000_000_000)
	r := recent{revocation: revocation{signal.SessionEnded, ""}, at: signal.Position{MS: at.UnixMilli()}}
	for began, want := range map[time.Duration]bool{-time.Hour: true, -time.Millisecond: true, 0: true, time.Millisecond: false, time.Hour: false} {
		if why, hit := r.hits("", signal.NewSessionIDAt(at.Add(began))); hit != want || hit && why != closeUnauth {
			t.Errorf("a session that began %s after the event: %v, %v", began, why, hit)
		}
	}
	if _, hit := r.hits("key_1", ""); hit {
		t.Error("a key ends with the sessions")
	}
	if _, hit := r.hits("", "of another form"); !hit {
		t.Error("a session of which nothing is known goes on")
	}
}
