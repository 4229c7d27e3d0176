package credentials

import (
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// TestIdentifiersGoByTheClockOfRedis: what is compared with positions in the log must not
// depend on the clock of a node.
func TestIdentifiersGoByTheClockOfRedis(t *testing.T) {
	t.Parallel()
	s := newTestService(t, Options{})
	s.clock.forward(-3 * time.Hour) // Redis' clock, as it is measured, is behind this process
	a := s.register(t, "a@example.com")
	tokens := s.login(t, a.Email)
	for what, id := range map[string]string{"account": string(a.ID), "session": string(tokens.Session)} {
		raw, ok := signal.ULIDBytes(id)
		if made := ulid.Time(ulid.ULID(raw).Time()); !ok || s.clock.now().Sub(made).Abs() > time.Minute {
			t.Errorf("%s %s was made at %s, want %s", what, id, made, s.clock.now())
		}
	}
}
