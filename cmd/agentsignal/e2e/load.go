package e2e

import (
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Register makes an account by the API, which must be open, and returns a client
// with a key of it.
func Register(public *Client) *Client {
	public.TB.Helper()
	email := NewEmail()
	public.Post("/v1/auth/register", CredentialsBody(email, Password)).Want(public.TB, http.StatusCreated)
	return public.With(public.With(public.Login(email, Password).Access).Key("key", "").Secret)
}

// Promises records what a service has acknowledged.
type Promises struct {
	mu            sync.Mutex
	Signals, jobs []string
	Unknown       int // requests whose outcome is unknown
}

func (p *Promises) note(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// Count returns how many promises were made.
func (p *Promises) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.Signals) + len(p.jobs)
}

// Load runs the trading agent from some workers, at once and as jobs, until calm is called or
// the service no longer answers.
func (p *Promises) Load(trader *Client, workers int) (calm func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				body := RunBody("ACME", "momentum")
				if async := (n+w)%4 == 0; async {
					body = RunBody("ACME", "momentum", `"async":true`)
				}
				a, err := trader.Try(http.MethodPost, "/v1/agents/trading/run", body)
				switch {
				case err != nil:
					p.note(func() { p.Unknown++ })
					return
				case a.Status == http.StatusOK && strings.HasPrefix(a.Body, `{"job_id"`):
					p.note(func() { p.jobs = append(p.jobs, Decode[WireJob](trader.TB, a.Body).ID) })
				case a.Status == http.StatusOK:
					p.note(func() { p.Signals = append(p.Signals, Decode[WireSignal](trader.TB, a.Body).ID) })
				case a.Unavailable():
					p.note(func() { p.Unknown++ })
				default:
					trader.TB.Errorf("a run is answered with %d %v %s", a.Status, a.Header, a.Body)
					return
				}
			}
		})
	}
	return func() {
		close(done)
		wg.Wait()
	}
}

// Kept fails the test if something acknowledged is missing or there twice.
func (p *Promises) Kept(trader *Client) {
	trader.TB.Helper()
	for _, id := range p.jobs {
		p.Signals = append(p.Signals, trader.Completed(id).Signal.ID)
	}
	var listed []string
	for _, s := range trader.AllSignals() {
		listed = append(listed, s.ID)
	}
	slices.Sort(listed)
	for _, id := range p.Signals {
		if _, found := slices.BinarySearch(listed, id); !found {
			trader.TB.Errorf("%s was acknowledged and is not listed", id)
		}
	}
	if n := len(listed); n < len(p.Signals) || n > len(p.Signals)+p.Unknown {
		trader.TB.Errorf("%d signals are listed; %d were acknowledged and %d requests had no answer", n, len(p.Signals),
			p.Unknown)
	}
	trader.TB.Logf("%d signals, %d of them by jobs, %d requests without an answer", len(listed), len(p.jobs), p.Unknown)
}

// RefreshForm has the form of a refresh token.
const RefreshForm = "rt_q3V0xH7mW2cY8nB5kR1tZ6pL4sD9fG0jA7eU2iO5vXw"

// UntilServed repeats a request on some connections until it is no longer answered with 503. Wait returns when
// that is so on all of them. No request may be lost meanwhile.
func (c *Client) UntilServed(connections int) (wait func()) {
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			for status := http.StatusServiceUnavailable; status == http.StatusServiceUnavailable; {
				// It has no Idempotency-Key, so the transport does not repeat it.
				r, err := http.NewRequest(http.MethodPost, c.URL+"/v1/agents/trading/run", strings.NewReader("{}"))
				Must(c.TB, err)
				a, err := transport.RoundTrip(r)
				if err != nil {
					c.TB.Errorf("a request is lost: %v", err)
					return
				}
				if status = ReadAnswer(a).Status; status != http.StatusServiceUnavailable && status != http.StatusUnauthorized {
					c.TB.Errorf("a request without a credential is answered with %d", status)
				}
			}
		})
	}
	return all.Wait
}
