package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// otherNodes are nodes that a test makes up.
type otherNodes struct {
	mu     sync.Mutex
	counts map[signal.KeyID]int // there
	shared map[signal.KeyID]int // here
	fail   bool                 // they do not answer
}

func (o *otherNodes) Share(key signal.KeyID, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shared == nil {
		o.shared = make(map[signal.KeyID]int)
	}
	o.shared[key] = n
}

func (o *otherNodes) Elsewhere(ctx context.Context, keys ...signal.KeyID) (map[signal.KeyID]int, error) {
	o.mu.Lock()
	fail := o.fail
	o.mu.Unlock()
	if fail {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	found := make(map[signal.KeyID]int)
	for _, key := range keys {
		found[key] = o.counts[key]
	}
	return found, nil
}

// refuses fails the test unless the handshake of p is answered 429.
func (s *service) refuses(p *signal.Principal) {
	s.tb.Helper()
	s.mu.Lock()
	s.principal = p
	s.mu.Unlock()
	ws, answer, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.server.URL, "http"), nil)
	if err == nil {
		ws.Close()
	}
	if answer.StatusCode != http.StatusTooManyRequests {
		s.tb.Errorf("the handshake is answered %s", answer.Status)
	}
}

// authenticated connects and authenticates by a first message.
func (s *service) authenticated(token string) *client {
	s.tb.Helper()
	c := s.dial(nil)
	c.send(`{"action":"auth","api_key":"` + token + `"}`)
	return c
}

// TestConnectionsOfAReaderAreLimited: at the handshake, after a first message, and when a connection changes its credential.
func TestConnectionsOfAReaderAreLimited(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s := newService(t, func(o *Options) { o.Metrics = NewMetrics(registry) })
	p, other := readerOf(`{"assets":["BTC"]}`), readerOf(`{"assets":["BTC"]}`)
	p.MaxConnections, other.MaxConnections = 2, 1
	s.tokens.know("reader", *p)
	s.tokens.know("other", *other)
	first := s.welcomed(p)
	second := s.authenticated("reader")
	second.want("welcome")
	s.refuses(p)
	s.authenticated("reader").wantClose(closeTooManyConns)
	s.welcomed(other) // a reader of the same view
	s.authenticated("alice").want("welcome")

	// The same credential again is no further connection; another one is, and leaves its place.
	first.ask(`{"action":"auth","api_key":"reader"}`, "welcome")
	s.refuses(p)
	first.ask(`{"action":"auth","api_key":"alice"}`, "welcome")
	third := s.welcomed(p)
	first.wantCloseAfter(`{"action":"auth","api_key":"other"}`, closeTooManyConns)
	second.ws.Close()
	until(t, "a place is free", func() bool {
		n, err := s.hub.ReaderConnections(t.Context(), []signal.KeyID{p.Key})
		return err == nil && n[p.Key] == 1
	})
	s.welcomed(p)
	s.refuses(p)
	if n := testutil.ToFloat64(s.hub.o.Metrics.readerConnections); n != 3 {
		t.Errorf("%v connections of readers, want two and one", n)
	}
	if n := testutil.ToFloat64(s.hub.o.Metrics.readerRefusals.WithLabelValues(refusedByLimit)); n != 5 {
		t.Errorf("%v refusals, want 5", n)
	}
	third.ws.Close()
}

// TestManyHandshakesOfAReaderAtOnce: as many as it may have are accepted.
func TestManyHandshakesOfAReaderAtOnce(t *testing.T) {
	t.Parallel()
	p := readerOf(`{}`)
	nodes := &otherNodes{counts: map[signal.KeyID]int{p.Key: 2}}
	s := newService(t, func(o *Options) { o.OtherNodes = nodes })
	var all sync.WaitGroup
	accepted := make(chan bool, 50)
	for range cap(accepted) {
		all.Go(func() { accepted <- s.hub.EnterReader(t.Context(), p) == nil })
	}
	all.Wait()
	close(accepted)
	n := 0
	for ok := range accepted {
		if ok {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d are accepted beside two on other nodes, want 3", n)
	}
	if nodes.shared[p.Key] != 3 {
		t.Errorf("other nodes are notified of %d", nodes.shared[p.Key])
	}
	got, err := s.hub.ReaderConnections(t.Context(), []signal.KeyID{p.Key, "key_other"})
	if err != nil || got[p.Key] != 5 || got["key_other"] != 0 {
		t.Errorf("all nodes together: %v, %v", got, err)
	}
	for range n {
		s.hub.LeaveReader(p)
	}
	if len(s.hub.readers.counts) != 0 || nodes.shared[p.Key] != 0 {
		t.Errorf("connections are left: %v here, %v shared", s.hub.readers.counts, nodes.shared)
	}
}

// TestWithoutOtherNodesTheOwnCountDecides, after a moment.
func TestWithoutOtherNodesTheOwnCountDecides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := readerOf(`{}`)
		p.MaxConnections = 1
		nodes := &otherNodes{counts: map[signal.KeyID]int{p.Key: 1}}
		r := newReaders(&Options{OtherNodes: nodes})
		if err := r.enter(t.Context(), p); !errors.Is(err, ErrTooManyConnections) {
			t.Errorf("with a connection elsewhere: %v", err)
		}
		nodes.fail = true
		begun := time.Now()
		if err := r.enter(t.Context(), p); err != nil || time.Since(begun) != elsewhereLimit {
			t.Errorf("without an answer: %v after %v", err, time.Since(begun))
		}
		if err := r.enter(t.Context(), p); !errors.Is(err, ErrTooManyConnections) {
			t.Errorf("with a connection here: %v", err)
		}
	})
}

// TestAReaderThatLeavesWhileItIsCounted keeps no place.
func TestAReaderThatLeavesWhileItIsCounted(t *testing.T) {
	t.Parallel()
	p := readerOf(`{}`)
	s := newService(t, nil)
	gone := &peer{departed: true}
	if err := s.hub.enterReader(t.Context(), gone, p); !errors.Is(err, errEnded) || len(s.hub.readers.counts) != 0 {
		t.Errorf("got %v, and %v are counted", err, s.hub.readers.counts)
	}
}

// TestReadersHaveANumberOfTheirOwn among the connections of an account.
func TestReadersHaveANumberOfTheirOwn(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s := newService(t, func(o *Options) { o.MaxConnections, o.MaxReaders, o.Metrics = 1, 2, NewMetrics(registry) })
	s.welcomed(readerOf(`{}`))
	last := s.welcomed(readerOf(`{}`))
	s.welcomed(principalOf(alice))
	s.dial(principalOf(alice)).wantClose(closeTooManyConns)
	s.dial(readerOf(`{}`)).wantClose(closeTooManyConns)
	if n := testutil.ToFloat64(s.hub.o.Metrics.readerRefusals.WithLabelValues(refusedByAccount)); n != 1 {
		t.Errorf("%v refusals, want 1", n)
	}
	last.ws.Close()
	until(t, "a reader has left", func() bool {
		s.hub.publishing.Lock()
		defer s.hub.publishing.Unlock()
		return s.hub.listened[alice].readers == 1
	})
	s.welcomed(readerOf(`{}`))
	s.dial(principalOf(alice)).wantClose(closeTooManyConns)
}

// TestADrainLeavesNoReader counted.
func TestADrainLeavesNoReader(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	s.welcomed(readerOf(`{}`))
	if err := s.hub.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	s.dial(readerOf(`{}`)).wantClose(closeGoingAway)
	s.hub.readers.mu.Lock()
	defer s.hub.readers.mu.Unlock()
	if len(s.hub.readers.counts) != 0 {
		t.Errorf("%v are counted", s.hub.readers.counts)
	}
}
