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

// wantPostponed demands that an entry that could not be read is still there, and due later.
func wantPostponed(t *testing.T, s *Store, key, member string, until time.Time) {
	t.Helper()
	score, err := s.RDB.ZScore(t.Context(), key, member).Result()
	if want := until.Add(redisclient.UnreadableAfter); err != nil || codec.TimeOfMilli(int64(score)).Before(want) {
		t.Errorf("an entry of %s that cannot be read is due at %v, %v; want not before %v", key, codec.TimeOfMilli(int64(score)), err, want)
	}
}
