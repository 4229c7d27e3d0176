package webhook

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// Other requests share the slots of deliveries. Slow ones leave most of them to others, and none is left taken.
func TestPost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSender{answer: after(10*time.Second, answers200)}
		n := New(newFakeStore(), s, ringOf(t, "2026"), Options{HostConcurrency: 16})
		account := signal.NewAccountID()
		ended := make(chan time.Duration, 8)
		begun := time.Now()
		post := func(slow bool) {
			go func() {
				r := sender.Request{To: sender.NewDestination("https://a.example/", "secret")}
				if result, err := n.Post(t.Context(), account, slow, r); err != nil || result.Status != 200 {
					t.Errorf("it ends with %+v, %v", result, err)
				}
				ended <- time.Since(begun)
			}()
			synctest.Wait()
		}
		for range 4 {
			post(true)
		}
		if got := len(s.sent()); got != 2 { // a quarter of the account's share
			t.Errorf("%d slow requests are sent", got)
		}
		for range 4 {
			post(false)
		}
		if got := len(s.sent()); got != 6 {
			t.Errorf("%d requests are sent", got)
		}
		for i := range 8 {
			if d, want := <-ended, 10*time.Second*time.Duration(1+i/6); d != want {
				t.Errorf("request %d ended after %v, want %v", i, d, want)
			}
		}
		if used := n.limiter.inFlight(); used != 0 {
			t.Errorf("%d slots are taken", used)
		}
	})
}
