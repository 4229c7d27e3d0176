// Package storetest holds what the tests of the store's packages share: clients that are closed
// at the end of a test, records of each kind, and checks. It imports no package that keeps
// records, so that the tests inside those packages can use it.
package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Client returns a client that is closed when the test ends.
func Client(tb testing.TB, o redisclient.Options) *redisclient.Client {
	tb.Helper()
	c, err := redisclient.NewClient(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

// Closing returns c, such as a log, and closes it when the test ends.
func Closing[C interface{ Close(context.Context) error }](tb testing.TB, c C) C {
	tb.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// Must fails the test at once unless err is nil.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// WantEqual fails unless err is nil and got is want.
func WantEqual(tb testing.TB, what string, err error, want, got any) {
	tb.Helper()
	if d := cmp.Diff(want, got); err != nil || d != "" {
		tb.Errorf("%s: %v (-want +got):\n%s", what, err, d)
	}
}

// WantKind checks the kind of an error.
func WantKind(tb testing.TB, what string, err error, want signal.Kind) {
	tb.Helper()
	if err == nil || signal.KindOf(err) != want {
		tb.Errorf("%s: %v (kind %d), want kind %d", what, err, signal.KindOf(err), want)
	}
}

// WantError checks the kind and the code of an error.
func WantError(tb testing.TB, err error, kind signal.Kind, code string) {
	tb.Helper()
	e, ok := errors.AsType[*signal.Error](err)
	if !ok || e.Kind != kind || e.Code != code {
		tb.Errorf("got error %v, want kind %d, code %q", err, kind, code)
	}
}

// WantPostponed checks that an unreadable member of a sorted set is kept, and due later.
func WantPostponed(tb testing.TB, rdb redis.UniversalClient, key, member string, until time.Time) {
	tb.Helper()
	score, err := rdb.ZScore(tb.Context(), key, member).Result()
	want, got := until.Add(redisclient.UnreadableAfter), codec.TimeOfMilli(int64(score))
	if err != nil || got.Before(want) {
		tb.Errorf("an unreadable entry of %s is due at %v, %v; want not before %v", key, got, err, want)
	}
}

// DueAt returns a member of a sorted set that is due at a time.
func DueAt(at time.Time, member string) redis.Z {
	return redis.Z{Score: float64(at.UnixMilli()), Member: member}
}

// AccountIn returns a new account of partition p.
func AccountIn(s interface{ Partition(signal.AccountID) int }, p int) signal.AccountID {
	for {
		if a := signal.NewAccountID(); s.Partition(a) == p {
			return a
		}
	}
}

// leases gives partitions to nodes.
type leases interface {
	TakeLease(ctx context.Context, p int, node string, ttl time.Duration) (epoch int64, owner string, err error)
}

// Take takes the lease of a partition, which must be free, and returns its epoch.
func Take(tb testing.TB, s leases, p int, node string, ttl time.Duration) int64 {
	tb.Helper()
	epoch, owner, err := s.TakeLease(tb.Context(), p, node, ttl)
	if err != nil || epoch == 0 {
		tb.Fatalf("%s takes partition %d: epoch %d, owner %q, %v", node, p, epoch, owner, err)
	}
	return epoch
}
