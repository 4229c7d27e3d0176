package operations

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// eventChannels is a subscription to all that has an id.
const eventChannels = "channels=signal.new,signal.updated,signal.closed,agent.status,system.notification"

// write has the agent of texts make a signal, whose id it returns.
func write(c *e2e.Client) string {
	c.TB.Helper()
	a := c.Post("/v1/agents/seo/run", e2e.RunBody("standing desk", "blog_post")).Ok(c.TB)
	return e2e.Decode[e2e.WireSignal](c.TB, a.Body).ID
}

// textsOf returns the events of a connection, from the one behind an id on.
func textsOf(s *e2e.Stream, after string) []string {
	var list []string
	for _, m := range s.Events() {
		if after == "" {
			list = append(list, m.Text)
		}
		if m.ID == after {
			after = ""
		}
	}
	return list
}

// hasSignal returns a condition for a signal.new.
func hasSignal(id string) func(e2e.Message) bool {
	return func(m e2e.Message) bool { return m.SignalOf() == id }
}

// compareWithWebSocket compares what connections by both transports get of three runs, byte for byte.
func compareWithWebSocket(t *testing.T, trader *e2e.Client, socket *e2e.Stream, events *e2e.EventStream) {
	t.Helper()
	events.Await("subscribed", func(m e2e.Message) bool { return m.Type == "subscribed" })
	before := socket.Last()
	var last string
	for range 3 {
		last = write(trader)
	}
	done := func(m e2e.Message) bool { return m.StatusOf().Status == "completed" }
	for _, s := range []*e2e.Stream{socket, events.Stream} {
		s.Await("the last signal", hasSignal(last))
		s.Until("the ends of all runs", func(all []e2e.Message) bool {
			n := 0
			for _, m := range all {
				if done(m) {
					n++
				}
			}
			return n >= 3
		})
	}
	want, got := textsOf(socket, before), textsOf(events.Stream, "")
	if !slices.Equal(want, got) || len(got) < 9 {
		t.Errorf("by Server-Sent Events:\n%s\nby WebSocket:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestEventsAreThoseOfAWebSocket beside it, directly and through nginx.
func TestEventsAreThoseOfAWebSocket(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	address := strings.TrimPrefix(s.URL, "http://")
	for name, way := range map[string]func(t *testing.T, c *e2e.Client) *e2e.Client{
		"directly": func(_ *testing.T, c *e2e.Client) *e2e.Client { return c },
		"through nginx": func(t *testing.T, c *e2e.Client) *e2e.Client {
			proxy := commandtest.StartNginx(t, e2e.Repository, [3]string{address, address, address})
			through := c.At("https://localhost")
			through.Base = proxy.Transport(t)
			return through
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trader, _ := s.Account(t)
			socket := trader.DialAt("/ws/dashboard?api_key=" + trader.Token + "&" + eventChannels)
			socket.Await("a welcome", func(m e2e.Message) bool { return m.Type == "welcome" })
			events := way(t, trader).With("").Events("api_key=" + trader.Token + "&" + eventChannels)
			compareWithWebSocket(t, trader, socket, events)
		})
	}
}

// cut is a connection that ends after so many bytes from the service.
type cut struct {
	net.Conn
	left int
}

func (c *cut) Read(b []byte) (int, error) {
	if c.left <= 0 {
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// TestEventsAfterCuts: a client that comes back as EventSource does, with its first query and the newest id, has every event
// once, wherever its connections were cut.
func TestEventsAfterCuts(t *testing.T) {
	t.Parallel()
	trader, _ := e2e.Shared(t).Account(t)
	socket := trader.DialAt("/ws/dashboard?api_key=" + trader.Token + "&" + eventChannels)
	socket.Await("the first signal", hasSignal(write(trader)))
	first := socket.Last()

	r := rand.New(rand.NewPCG(39, 6))
	cutting := trader.With(trader.Token)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &cut{conn, 2000 + r.IntN(6000)}, err
	}
	cutting.Base = &http.Transport{DisableKeepAlives: true, DialContext: dial}
	var last atomic.Pointer[string] // the newest signal, once all are made
	go func() {
		id := ""
		for range 25 {
			a, err := trader.Try(http.MethodPost, "/v1/agents/seo/run", e2e.RunBody("standing desk", "blog_post"))
			if err != nil || a.Status != http.StatusOK {
				t.Errorf("a run: %d %s %v", a.Status, a.Body, err)
				break
			}
			id = e2e.Decode[e2e.WireSignal](t, a.Body).ID
		}
		last.Store(&id)
	}()
	complete := func(list []string) bool {
		return last.Load() != nil && len(list) > 0 && strings.Contains(list[len(list)-1], `"status":"completed"`) &&
			slices.ContainsFunc(list, func(text string) bool { return strings.Contains(text, *last.Load()) })
	}
	var got []string
	query, header, connections := eventChannels+"&last_event_id="+first, []string(nil), 0
	for ; !complete(got) && !t.Failed(); connections++ {
		s := cutting.Events(query, header...)
		e2e.Eventually(t, "it is cut, or has everything", func() bool {
			return s.Ended() || complete(slices.Concat(got, textsOf(s.Stream, "")))
		})
		s.Leave()
		back, _ := s.ComesBack()
		if got = append(got, textsOf(s.Stream, "")...); back != "Last-Event-ID: " {
			header = []string{back}
		}
	}
	socket.Await("the last signal", hasSignal(*last.Load()))
	socket.Until("the end of the last run",
		func(all []e2e.Message) bool { return all[len(all)-1].StatusOf().Status == "completed" })
	if want := textsOf(socket, first); !slices.Equal(want, got) || connections < 5 {
		t.Errorf("after %d connections there are %d events, by WebSocket %d:\n%s", connections, len(got), len(want),
			strings.Join(got, "\n"))
	}
}

// TestEventStreamsEndWithReasons: a revoked key and a process that stops, by HTTP/1.1 and, where TLS ends in the service, by
// HTTP/2. What is refused then is refused for good, so that EventSource gives up.
func TestEventStreamsEndWithReasons(t *testing.T) {
	t.Parallel()
	for name, major := range map[string]int{"HTTP/1.1": 1, "HTTP/2": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config := e2e.TestConfig(t, redistest.New(t).URL())
			trust := func(*e2e.Client) {}
			if major == 2 {
				config.TLS.CertFile, config.TLS.KeyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
				certificate := certificateFor(t, config.TLS.CertFile, config.TLS.KeyFile)
				trust = func(c *e2e.Client) {
					c.URL = "https" + strings.TrimPrefix(c.URL, "http")
					c.Trust(certificate)
					c.Base.ForceAttemptHTTP2 = true
				}
			}
			s := e2e.Start(t, config)
			trader, account := s.Account(t)
			trust(trader)
			user := trader.With(trader.Login(account.Email, e2e.Password).Access)
			key := user.Key("other", "")
			other := trader.With(key.Secret)
			ended, stays := other.Events(eventChannels), trader.Events(eventChannels)
			for _, one := range []*e2e.EventStream{ended, stays} {
				one.Await("a welcome", func(m e2e.Message) bool { return m.Type == "welcome" })
				if one.Answer.ProtoMajor != major {
					t.Errorf("it is answered by %s", one.Answer.Proto)
				}
			}
			user.Do(http.MethodDelete, "/v1/auth/api-keys/"+key.ID, "").Want(t, http.StatusNoContent)
			ended.Closes(4401)
			if _, pause := ended.ComesBack(); pause < 10*time.Second {
				t.Errorf("a client whose key has ended is to come back after %s", pause)
			}
			if again, a := other.TryEvents(eventChannels); again != nil || a.Status != http.StatusUnauthorized {
				t.Errorf("it comes back and gets %d %s", a.Status, a.Body)
			}
			made := write(trader)
			stays.Await("the signal", hasSignal(made))
			s.Stop(t)
			stays.Closes(1001)
			if back, pause := stays.ComesBack(); pause < 500*time.Millisecond || pause > 5*time.Second ||
				back != "Last-Event-ID: "+stays.Last() {
				t.Errorf("a client whose service stops is to come back after %s with %s", pause, back)
			}
		})
	}
}
