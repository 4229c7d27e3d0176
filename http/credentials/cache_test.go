package credentials

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
)

// inBubble runs f with a service over a store in memory.
func inBubble(t *testing.T, o Options, f func(t *testing.T, s *Service, m *memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		f(t, New(m, &eventLog{}, testKeys(), o), m)
	})
}

// accepted reports whether token is valid. Errors other than invalid_token fail the test.
func accepted(t *testing.T, s *Service, token string) bool {
	t.Helper()
	_, err := s.Authenticator.Authenticate(context.Background(), token)
	if err != nil {
		wantCode(t, err, "invalid_token")
	}
	return err == nil
}

func TestAnswersHoldASecond(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		secret := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1"})
		_, access := m.addSession(t, s, "acc_1")
		for _, token := range []string{secret, access} {
			for range 100 {
				if !accepted(t, s, token) {
					t.Fatal("refused")
				}
			}
			if n := m.counted(); n != 1 {
				t.Errorf("100 requests ask the store %d times", n)
			}
			time.Sleep(fresh)
			accepted(t, s, token)
			if n := m.counted(); n != 1 {
				t.Errorf("after a second the store is asked %d times", n)
			}
		}
	})
}

func TestAnswersInUseAreRenewedBesideTheRequests(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		secret := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1"})
		accepted(t, s, secret)
		m.do(func() { m.delay = 100 * time.Millisecond })
		m.counted()
		start := time.Now()
		for range 100 {
			time.Sleep(50 * time.Millisecond)
			before := time.Now()
			if !accepted(t, s, secret) {
				t.Fatal("refused")
			}
			if time.Since(before) != 0 {
				t.Fatalf("a request waits %v for the store", time.Since(before))
			}
		}
		if n, most := m.counted(), int(time.Since(start)/renewAfter)+1; n < 5 || n > most {
			t.Errorf("the store is asked %d times in %v", n, time.Since(start))
		}
		time.Sleep(time.Second)
	})
}

func TestCloseWaitsForRenewals(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		secret := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1"})
		accepted(t, s, secret)
		m.do(func() { m.delay = 100 * time.Millisecond })
		time.Sleep(renewAfter)
		accepted(t, s, secret) // and begins a renewal
		synctest.Wait()
		begun := time.Now()
		if err := s.Authenticator.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != 100*time.Millisecond {
			t.Errorf("Close returned after %v", took)
		}
		m.counted()
		time.Sleep(fresh)
		if _, err := s.Authenticator.Authenticate(t.Context(), secret); signal.KindOf(err) != signal.KindUnavailable {
			t.Errorf("a key that is not known fresh, after Close: %v", err)
		}
		if n := m.counted(); n != 0 {
			t.Errorf("the store was asked %d times after Close", n)
		}
	})
}

// TestOtherProcessesRefuseWithinASecond ends credentials in a store that two services
// share, while requests go on.
func TestOtherProcessesRefuseWithinASecond(t *testing.T) {
	for name, slow := range map[string]func(m *memory){
		"store at once":       func(*memory) {},
		"slow before reading": func(m *memory) { m.delay = 700 * time.Millisecond },
		"slow after reading":  func(m *memory) { m.after = 700 * time.Millisecond },
		"slower than fresh":   func(m *memory) { m.after = 1100 * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Options{}, func(t *testing.T, here *Service, m *memory) {
				there := New(m, &eventLog{}, testKeys(), Options{})
				secret := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1"})
				session, access := m.addSession(t, here, "acc_1")
				m.do(func() { slow(m) })
				var ended time.Time
				var mu sync.Mutex
				late := time.Duration(0)
				for i := range 400 {
					go func() {
						for _, token := range []string{secret, access} {
							asked := time.Now()
							_, err := there.Authenticator.Authenticate(context.Background(), token)
							mu.Lock()
							if err == nil && !ended.IsZero() && asked.Sub(ended) > late {
								late = asked.Sub(ended)
							}
							mu.Unlock()
						}
					}()
					time.Sleep(10 * time.Millisecond)
					if i == 111 { // just after a lookup in the slowest store began
						if err := here.Keys.RevokeKey(t.Context(), "acc_1", "key_1"); err != nil {
							t.Error(err)
						}
						if err := here.Sessions.Logout(t.Context(), signal.Principal{Account: "acc_1", Session: session},
							false); err != nil {
							t.Error(err)
						}
						mu.Lock()
						ended = time.Now()
						mu.Unlock()
						if name == "store at once" && (accepted(t, here, secret) || accepted(t, here, access)) {
							t.Error("the process that ended it accepts it")
						}
					}
				}
				time.Sleep(time.Minute)
				mu.Lock()
				defer mu.Unlock()
				if late > fresh {
					t.Errorf("a request %v after the end is accepted", late)
				}
			})
		})
	}
}

func TestForgetTakesEffectAtOnce(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		first := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1"})
		second := m.addKey(credential.APIKey{ID: "key_2", Account: "acc_1"})
		third := m.addKey(credential.APIKey{ID: "key_3", Account: "acc_2"})
		one, oneToken := m.addSession(t, s, "acc_1")
		_, twoToken := m.addSession(t, s, "acc_1")
		_, threeToken := m.addSession(t, s, "acc_2")
		tokens := []string{first, second, third, oneToken, twoToken, threeToken}
		for _, c := range []struct {
			name  string
			event signal.Event
			asked []bool // of tokens: whether the store is asked again
		}{
			{"key", signal.Event{Type: signal.KeyRevoked, Account: "acc_1", Subject: "key_1"},
				[]bool{true, false, false, false, false, false}},
			{"session", signal.Event{Type: signal.SessionEnded, Account: "acc_1", Subject: string(one)},
				[]bool{false, false, false, true, false, false}},
			{"all sessions", signal.Event{Type: signal.SessionEnded, Account: "acc_1"},
				[]bool{false, false, false, true, true, false}},
			{"account", signal.Event{Type: signal.AccountDeleted, Account: "acc_1"},
				[]bool{true, true, false, true, true, false}},
			{"other events", signal.Event{Type: signal.SignalCreated, Account: "acc_1"},
				[]bool{false, false, false, false, false, false}},
		} {
			for _, token := range tokens {
				accepted(t, s, token)
			}
			s.Authenticator.Forget([]signal.Event{c.event})
			var asked []bool
			for _, token := range tokens {
				m.counted()
				accepted(t, s, token)
				asked = append(asked, m.counted() == 1)
			}
			if d := cmp.Diff(c.asked, asked); d != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, d)
			}
		}
		s.Authenticator.ForgetAll()
		m.counted()
		for _, token := range tokens {
			accepted(t, s, token)
		}
		if n := m.counted(); n != len(tokens) {
			t.Errorf("after ForgetAll the store is asked %d times", n)
		}
	})
}

// TestLookupInFlightIsNotCached ends a key while the answer to its lookup is on its
// way from the store.
func TestLookupInFlightIsNotCached(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		secret := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1"})
		session, access := m.addSession(t, s, "acc_1")
		m.do(func() { m.after = 100 * time.Millisecond })
		for _, token := range []string{secret, access} {
			go s.Authenticator.Authenticate(context.Background(), token)
		}
		time.Sleep(50 * time.Millisecond) // both are read, neither is answered
		if err := s.Keys.RevokeKey(t.Context(), "acc_1", "key_1"); err != nil {
			t.Fatal(err)
		}
		if err := s.Sessions.Logout(t.Context(), signal.Principal{Account: "acc_1", Session: session}, false); err != nil {
			t.Fatal(err)
		}
		for _, token := range []string{secret, access} {
			if accepted(t, s, token) {
				t.Error("a request after the end shares an answer from before it")
			}
		}
		time.Sleep(200 * time.Millisecond)
		for _, token := range []string{secret, access} {
			if accepted(t, s, token) {
				t.Error("an answer from before the end is remembered")
			}
		}
	})
}

// TestLookupInFlightDuringAGapIsNotCached: the key is revoked elsewhere, by an event that was
// missed.
func TestLookupInFlightDuringAGapIsNotCached(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		there := New(m, &eventLog{}, testKeys(), Options{})
		secret := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1"})
		m.do(func() { m.after = 100 * time.Millisecond })
		go s.Authenticator.Authenticate(context.Background(), secret)
		time.Sleep(50 * time.Millisecond) // it is read, not answered
		if err := there.Keys.RevokeKey(t.Context(), "acc_1", "key_1"); err != nil {
			t.Fatal(err)
		}
		s.Authenticator.ForgetAll()
		for range 2 {
			if accepted(t, s, secret) {
				t.Error("an answer from before the gap is remembered")
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
}

func TestEqualLookupsAreOne(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		secret := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1"})
		m.do(func() { m.delay = 10 * time.Millisecond })
		first, cancel := context.WithCancel(t.Context())
		results := make(chan error, 100)
		go func() {
			_, err := s.Authenticator.Authenticate(first, secret)
			results <- err
		}()
		synctest.Wait()
		for range 99 {
			go func() {
				_, err := s.Authenticator.Authenticate(context.Background(), secret)
				results <- err
			}()
		}
		synctest.Wait()
		cancel() // the first one leaves, the others must be answered
		refused := 0
		for range 100 {
			if err := <-results; err != nil {
				wantCode(t, err, "unavailable")
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%d are refused, want the one that left", refused)
		}
		if n := m.counted(); n != 1 {
			t.Errorf("the store is asked %d times", n)
		}
	})
}

func TestStoreThatCannotBeAsked(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		secret := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1"})
		_, access := m.addSession(t, s, "acc_1")
		m.do(func() { m.err = signal.Unavailable(errors.New("away")) })
		for _, token := range []string{secret, access} {
			for range 2 {
				_, err := s.Authenticator.Authenticate(t.Context(), token)
				wantCode(t, err, "unavailable")
			}
		}
		m.do(func() { m.err = nil })
		if !accepted(t, s, secret) || !accepted(t, s, access) {
			t.Error("the failure is remembered")
		}
	})
}

func TestUnknownKeysAreRememberedForASecond(t *testing.T) {
	inBubble(t, Options{Cached: 400}, func(t *testing.T, s *Service, m *memory) {
		known := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1"})
		accepted(t, s, known)
		unknown := newKeySecret()
		m.counted()
		for range 50 {
			if accepted(t, s, unknown) {
				t.Fatal("accepted")
			}
		}
		if n := m.counted(); n != 1 {
			t.Errorf("50 guesses of one key ask the store %d times", n)
		}
		for range 1000 {
			accepted(t, s, newKeySecret())
		}
		if present, missing := s.Authenticator.keys.size(); present != 1 || missing > 100 {
			t.Errorf("%d keys and %d guesses are remembered", present, missing)
		}
		m.counted()
		accepted(t, s, known)
		if n := m.counted(); n != 0 {
			t.Error("guesses displace what is known")
		}
		time.Sleep(fresh)
		accepted(t, s, unknown)
		if n := m.counted(); n != 1 {
			t.Error("a guess is remembered for more than a second")
		}
		s.Authenticator.keys.prune()
		if present, missing := s.Authenticator.keys.size(); present != 0 || missing != 1 {
			t.Errorf("after pruning %d keys and %d guesses are remembered", present, missing)
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	inBubble(t, Options{Cached: 100}, func(t *testing.T, s *Service, m *memory) {
		for i := range 500 {
			accepted(t, s, m.addKey(credential.APIKey{ID: signal.KeyID(fmt.Sprint("key_", i)),
				Account: signal.AccountID(fmt.Sprint("acc_", i%7))}))
			_, access := m.addSession(t, s, "acc_1")
			accepted(t, s, access)
		}
		if present, _ := s.Authenticator.keys.size(); present != 100 {
			t.Errorf("%d keys are remembered", present)
		}
		n := 0
		for _, of := range s.Authenticator.keys.byAccount {
			n += len(of)
		}
		if n != 100 || len(s.Authenticator.tokens.m) != 100 {
			t.Errorf("index of %d, %d tokens", n, len(s.Authenticator.tokens.m))
		}
		for i := range 7 {
			account := signal.AccountID(fmt.Sprint("acc_", i))
			s.Authenticator.Forget([]signal.Event{{Type: signal.AccountDeleted, Account: account}})
		}
		if present, _ := s.Authenticator.keys.size(); present != 0 || len(s.Authenticator.keys.byAccount) != 0 {
			t.Errorf("%d keys, %d accounts are left", present, len(s.Authenticator.keys.byAccount))
		}
	})
}

func TestKeysEndWithTheirTime(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		secret := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1",
			ExpiresAt: s.Accounts.now().Add(300 * time.Millisecond)})
		if !accepted(t, s, secret) {
			t.Error("refused in time")
		}
		time.Sleep(300*time.Millisecond - 1)
		if !accepted(t, s, secret) {
			t.Error("refused a nanosecond early")
		}
		time.Sleep(time.Nanosecond)
		if accepted(t, s, secret) {
			t.Error("accepted at expires_at, from memory")
		}
	})
}

func TestSessionOfAnotherAccountIsRefused(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		session, _ := m.addSession(t, s, "acc_1")
		token, err := s.Authenticator.jwt.issue("acc_2", session, s.Accounts.now(), s.Accounts.now().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if accepted(t, s, token) {
			t.Error("accepted")
		}
	})
}

func TestUsesAreNotedOnceAMinute(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) // begins a minute
		start := time.Now()
		secret := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1", LastUsedAt: start.Add(-time.Hour)})
		for range 110 {
			accepted(t, s, secret)
			time.Sleep(time.Second)
		}
		d := credential.DigestOf(secret)
		want := []map[credential.Digest]time.Time{{d: start.UTC()}, {d: start.Add(time.Minute).UTC()}}
		if diff := cmp.Diff(want, m.uses); diff != "" {
			t.Errorf("uses (-want +got):\n%s", diff)
		}

		m.do(func() { m.err, m.uses = signal.Unavailable(errors.New("away")), nil })
		time.Sleep(10 * time.Second)
		m.do(func() { m.err = nil })
		accepted(t, s, secret)
		m.do(func() { m.err = signal.Unavailable(errors.New("away")) })
		time.Sleep(5 * time.Second)
		m.do(func() { m.err = nil })
		cancel() // the last uses are stored at the end
		if err := <-done; err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]map[credential.Digest]time.Time{{d: start.Add(2 * time.Minute).UTC()}},
			m.uses); diff != "" {
			t.Errorf("uses after the store was away (-want +got):\n%s", diff)
		}
	})
}

// TestChangesReachAllProcesses: a change is announced to the caches of all processes and appended to the
// log of its account.
func TestChangesReachAllProcesses(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		s.announcer.announce(t.Context(), []signal.Event{{Type: signal.KeyRevoked, Account: "acc_1", Subject: "key_1"}})
		if appended := s.announcer.events.(*eventLog).take(); len(m.notified) != 1 || len(appended) != 1 {
			t.Errorf("%d events to all processes and %d in the log, want one each", len(m.notified), len(appended))
		}
	})
}

func TestRunAnnouncesWhatOthersCouldNot(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		left := []signal.Event{{ID: "evt_1", Type: signal.AccountDeleted, Account: "acc_1"},
			{ID: "evt_2", Type: signal.SessionEnded, Account: "acc_2"},
			{ID: "evt_3", Type: signal.KeyRevoked, Account: "acc_2", Subject: "key_1"}}
		m.unsettled = left
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(5 * time.Second)
		cancel()
		<-done
		var want []signal.Event
		for _, e := range left {
			e.ID = ""
			want = append(want, e)
		}
		if d := cmp.Diff(want, s.announcer.events.(*eventLog).take()); d != "" {
			t.Errorf("appended (-want +got):\n%s", d)
		}
		if d := cmp.Diff(left, m.settled); d != "" {
			t.Errorf("settled (-want +got):\n%s", d)
		}
	})
}

func TestManyEventsAreAppendedInParts(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, s *Service, m *memory) {
		var events []signal.Event
		for i := range 250 {
			events = append(events, signal.Event{ID: "evt_1", Type: signal.SessionEnded, Account: "acc_1",
				Subject: fmt.Sprint("ses_", i)})
		}
		s.announcer.announce(t.Context(), events)
		if n := len(s.announcer.events.(*eventLog).take()); n != 250 || len(m.settled) != 250 {
			t.Errorf("%d appended, %d settled", n, len(m.settled))
		}
	})
}

func TestRefusalsAreCounted(t *testing.T) {
	r := prometheus.NewRegistry()
	inBubble(t, Options{Metrics: NewMetrics(r)}, func(t *testing.T, s *Service, m *memory) {
		expired := m.addKey(credential.APIKey{ID: "key_1", Account: "acc_1", ExpiresAt: s.Accounts.now()})
		session, access := m.addSession(t, s, "acc_1")
		m.EndSession(t.Context(), "acc_1", session, s.Accounts.now())
		_, err := s.Authenticator.Authenticate(t.Context(), "")
		wantCode(t, err, "missing_credentials")
		for _, token := range []string{"ask_", newKeySecret(), expired, "x.y.z", access} {
			accepted(t, s, token)
		}
		time.Sleep(15 * time.Minute)
		accepted(t, s, access)
		got := map[reason]float64{}
		for _, why := range reasons {
			if n := testutil.ToFloat64(s.Authenticator.metrics.failures.WithLabelValues(string(why))); n != 0 {
				got[why] = n
			}
		}
		want := map[reason]float64{missingCredentials: 1, malformedKey: 1, unknownKey: 1, expiredKey: 1, invalidJWT: 1,
			endedSession: 1, expiredJWT: 1}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	if n, err := testutil.GatherAndCount(r, "agentsignal_auth_failures_total"); err != nil || n != len(reasons) {
		t.Errorf("%d series, %v: every reason must begin at 0", n, err)
	}
}
