package chaos

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

const (
	// requestTimeout is how long a client waits for an answer before it asks another node.
	requestTimeout = 10 * time.Second
	// giveUp is how long a client repeats a request. It is longer than any fault lasts: without prices, which the
	// simulated market has none of until a clock that was ahead is there again, no run ends.
	giveUp = time.Minute + longestJump
	// retryPause separates two attempts.
	retryPause = 100 * time.Millisecond
	// unavailable is how often a list is asked for again that cannot be read for the moment.
	unavailable = 100
)

// user is an account and its clients.
type user struct {
	id  signal.AccountID
	key string
}

// clients use a cluster and note what they see.
type clients struct {
	tb      testing.TB
	cluster *cluster
	record  *record
	http    *http.Client
	users   []user
	busy    sync.RWMutex // read-locked by each request of work
}

// newClients makes accounts, and a webhook of each.
func newClients(tb testing.TB, c *cluster, accounts int) *clients {
	tb.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	tb.Cleanup(transport.CloseIdleConnections)
	l := &clients{tb: tb, cluster: c, record: newRecord(), http: &http.Client{Transport: transport, Timeout: requestTimeout}}
	endpoint := httptest.NewServer(http.HandlerFunc(l.receive))
	tb.Cleanup(endpoint.Close)
	for i := range accounts {
		u := l.register(i)
		l.users = append(l.users, u)
		l.must(u.key, "/v1/webhooks", map[string]any{"url": endpoint.URL + "/" + string(u.id),
			"events": []string{"signal.created", "signal.closed"}}, nil)
	}
	return l
}

// register makes an account with an API key.
func (l *clients) register(i int) user {
	l.tb.Helper()
	login := map[string]any{"email": fmt.Sprintf("user%d@example.com", i), "password": "correct horse battery"}
	var account struct {
		ID signal.AccountID `json:"account_id"`
	}
	var tokens struct {
		Access string `json:"access_token"`
	}
	var key struct {
		Secret string `json:"api_key"`
	}
	l.must("", "/v1/auth/register", login, &account)
	l.must("", "/v1/auth/login", login, &tokens)
	l.must(tokens.Access, "/v1/auth/api-key", map[string]any{"name": "chaos"}, &key)
	return user{account.ID, key.Secret}
}

// must sends a request that must succeed, before any fault.
func (l *clients) must(credential, path string, body, answer any) {
	l.tb.Helper()
	status, text, err := l.send(l.cluster.address(0), http.MethodPost, path, credential, body, "")
	if err != nil || status/100 != 2 {
		l.tb.Fatalf("%s: %d %s %v", path, status, text, err)
	}
	if answer != nil {
		commandtest.Must(l.tb, json.Unmarshal(text, answer))
	}
}

// send sends a request to a node. key is an Idempotency-Key, or "".
func (l *clients) send(node, method, path, credential string, body any, key string) (status int, text []byte, err error) {
	var content []byte
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	r, err := http.NewRequest(method, node+path, bytes.NewReader(content))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	answer, err := l.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

// receive is the endpoint of all webhooks.
func (l *clients) receive(w http.ResponseWriter, r *http.Request) {
	var event struct {
		ID   signal.EventID
		Type string
		Data struct {
			Signal signal.SignalID `json:"signal_id"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
		w.WriteHeader(http.StatusBadRequest) // the sender died: it is repeated
		return
	}
	account := signal.AccountID(strings.TrimPrefix(r.URL.Path, "/"))
	l.record.received(account, change{event.Data.Signal, event.Type == "signal.closed"}, event.ID)
}

// work runs the trading agent for one account after another, of those without bursts, until ctx ends, each request until it is
// answered with success or giveUp has passed.
func (l *clients) work(ctx context.Context, worker int, pause time.Duration) {
	for n := worker; ctx.Err() == nil; n++ {
		l.busy.RLock()
		l.run(l.users[bursting+n%(len(l.users)-bursting)], n)
		l.busy.RUnlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// burst runs the agent burstRate times a second until ctx ends, each time without an Idempotency-Key and without
// repeats: so that runs reach the log also while Redis, which such a key needs first, is away.
func (l *clients) burst(ctx context.Context) {
	var open errgroup.Group
	open.SetLimit(burstOpen)
	defer open.Wait()
	tick := time.NewTicker(time.Second / burstRate)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			open.TryGo(func() error {
				if u := l.users[n%bursting]; l.attempt(u, n, "") != "" {
					l.record.note(func() { l.record.givenUp[u.id]++ })
				}
				return nil
			})
		}
	}
}

// run makes one request, first at a node.
func (l *clients) run(u user, node int) {
	key, failure := rand.Text(), ""
	for until := time.Now().Add(giveUp); time.Now().Before(until); node++ {
		if failure = l.attempt(u, node, key); failure == "" {
			return
		}
		time.Sleep(retryPause)
	}
	l.tb.Logf("a request was given up after: %s", failure)
	l.record.note(func() { l.record.givenUp[u.id]++ })
}

// attempt sends one request of a run to a node. It returns "" if it was answered with success.
func (l *clients) attempt(u user, node int, key string) (failure string) {
	url := l.cluster.address(node)
	if url == "" {
		return "no node is up"
	}
	status, text, err := l.send(url, http.MethodPost, "/v1/agents/trading/run", u.key,
		map[string]any{"asset": "BTC", "strategy": "momentum", "timeframe": "1m"}, key)
	if err != nil || status != http.StatusOK {
		return fmt.Sprintf("%d %.300s %v", status, text, err)
	}
	var made struct {
		ID signal.SignalID `json:"signal_id"`
	}
	if err := json.Unmarshal(text, &made); err != nil || made.ID == "" {
		l.record.note(func() { l.record.faults = append(l.record.faults, "a run was answered with "+string(text)) })
	}
	l.record.answered(made.ID)
	return ""
}

// follow keeps a stream of an account open, on the next node after each end, until ctx ends. It closes
// begun when the first connection is subscribed.
func (l *clients) follow(ctx context.Context, w *watched, key string, node int, begun chan<- struct{}) {
	first := sync.OnceFunc(func() { close(begun) })
	last := ""
	for ; ctx.Err() == nil; node++ {
		if url := l.cluster.address(node); url != "" {
			last = l.listen(ctx, w, url, key, last, first)
		}
		time.Sleep(retryPause)
	}
}

// listen reads one connection to its end and returns the id of the last event.
func (l *clients) listen(ctx context.Context, w *watched, url, key, last string, subscribed func()) string {
	dialer := websocket.Dialer{HandshakeTimeout: requestTimeout}
	header := http.Header{"Authorization": {"Bearer " + key}}
	ws, _, err := dialer.DialContext(ctx, "ws"+strings.TrimPrefix(url, "http")+"/ws/dashboard", header)
	if err != nil {
		return last
	}
	stop := context.AfterFunc(ctx, func() { ws.Close() })
	defer func() {
		stop()
		ws.Close()
	}()
	request := map[string]any{"action": "subscribe", "channels": []string{"signal.new", "signal.closed"}}
	if last != "" {
		request["last_event_id"] = last
	}
	if ws.WriteJSON(request) != nil {
		return last
	}
	var early []seen // sent before the reply to subscribe
	begun := false
	for {
		// A paused node is left, as clients do that see no heartbeat.
		ws.SetReadDeadline(time.Now().Add(requestTimeout))
		var m struct {
			Type string
			ID   string
			Data struct {
				Signal  signal.SignalID `json:"signal_id"`
				Resumed *struct{ Complete bool }
			}
		}
		if ws.ReadJSON(&m) != nil {
			return last
		}
		if m.Type == "subscribed" {
			begun = true
			subscribed()
			l.record.note(func() {
				w.early = append(w.early, early...)
				if m.Data.Resumed != nil {
					w.resumes++
					if !m.Data.Resumed.Complete {
						w.gaps++
					}
				}
			})
		}
		// Until it is subscribed, a connection has the default channels, and what it sends may be newer
		// than what a resume sends afterwards.
		if begun && m.ID != "" {
			last = m.ID
		}
		if m.Type != "signal.new" && m.Type != "signal.closed" {
			continue
		}
		at, _ := signal.ParsePosition(m.ID)
		event := seen{change{m.Data.Signal, m.Type == "signal.closed"}, at}
		if !begun {
			early = append(early, event)
			continue
		}
		l.record.note(func() { w.events = append(w.events, event) })
	}
}

// listed returns what a node lists for an account.
func (l *clients) listed(url string, u user) []signal.SignalID {
	l.tb.Helper()
	var all []signal.SignalID
	for {
		path := fmt.Sprintf("/v1/signals?limit=100&offset=%d", len(all))
		status, text, err := l.send(url, http.MethodGet, path, u.key, nil, "")
		// The first read of a new master is refused (decision 50), and there may be one after another.
		for tries := 0; err == nil && status == http.StatusServiceUnavailable && tries < unavailable; tries++ {
			time.Sleep(retryPause)
			status, text, err = l.send(url, http.MethodGet, path, u.key, nil, "")
		}
		if err != nil || status != http.StatusOK {
			l.tb.Fatalf("list signals: %d %s %v", status, text, err)
		}
		var page struct {
			Signals []struct {
				ID signal.SignalID `json:"signal_id"`
			}
			More bool `json:"has_more"`
		}
		commandtest.Must(l.tb, json.Unmarshal(text, &page))
		for _, s := range page.Signals {
			all = append(all, s.ID)
		}
		if !page.More {
			return all
		}
	}
}
