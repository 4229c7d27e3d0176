package limits

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// panickingStore panics at its first request.
type panickingStore struct {
	*fakeStore
	asked bool
}

func (s *panickingStore) TakeTokens(ctx context.Context, class, who string, quota int, period time.Duration,
	want, back int) (int, time.Duration, error) {
	if !s.asked {
		s.asked = true
		panic("broken")
	}
	return s.fakeStore.TakeTokens(ctx, class, who, quota, period, want, back)
}

func TestAQuestionThatPanicsIsOneThatFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{full: map[string]time.Time{}}
		l := New(&panickingStore{fakeStore: store}, Options{})
		for range 2 {
			if d := l.Take(t.Context(), Reads, "acc_1"); !d.Allowed {
				t.Errorf("a request is refused: %+v", d)
			}
			time.Sleep(2 * retryStore)
		}
		if store.calls == 0 {
			t.Error("the store is not asked again")
		}
	})
}

// panickingReturn panics when tokens are first returned.
type panickingReturn struct {
	*fakeStore
	returned int
}

func (s *panickingReturn) TakeTokens(ctx context.Context, class, who string, quota int, period time.Duration,
	want, back int) (int, time.Duration, error) {
	if want == 0 {
		if s.returned++; s.returned == 1 {
			panic("at a return")
		}
	}
	return s.fakeStore.TakeTokens(ctx, class, who, quota, period, want, back)
}

func TestTokensAreReturnedAfterAPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &panickingReturn{fakeStore: &fakeStore{full: map[string]time.Time{}}}
		l := New(store, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		for range 2 {
			for range 20 { // enough for a lease of several tokens
				l.Take(t.Context(), Reads, "acc_1")
			}
			time.Sleep(10 * leaseTime)
		}
		cancel()
		if err := <-done; err != nil || store.returned < 2 {
			t.Errorf("tokens are returned %d times, %v", store.returned, err)
		}
	})
}
