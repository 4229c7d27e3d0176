package credentials

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/persistence/codec"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// openStore returns a store whose client is closed when the test ends.
func openStore(t *testing.T, o redisclient.Options) *Store {
	t.Helper()
	c, err := redisclient.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return New(c)
}

// wantPostponed fails unless an entry that could not be read is still there, and due later.
func wantPostponed(t *testing.T, s *Store, key, member string, until time.Time) {
	t.Helper()
	score, err := s.RDB.ZScore(t.Context(), key, member).Result()
	at, want := codec.TimeOfMilli(int64(score)), until.Add(redisclient.UnreadableAfter)
	if err != nil || at.Before(want) {
		t.Errorf("an unreadable entry of %s is due at %v, %v; want not before %v", key, at, err, want)
	}
}
