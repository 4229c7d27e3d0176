package redisclient

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// newOutages returns outages whose probes fail while missing is true, and what they log.
func newOutages(missing *atomic.Bool) (*outages, *strings.Builder) {
	var text strings.Builder
	return &outages{
		ended:   map[string]chan struct{}{},
		log:     slog.New(slog.NewTextHandler(&text, nil)),
		metrics: NewMetrics(prometheus.NewRegistry()),
		probe: func(context.Context, string) error {
			time.Sleep(time.Second) // as long as replicas may take
			if missing.Load() {
				return ErrReplicas
			}
			return nil
		},
	}, &text
}

// However many writes meet it, an outage is probed by one goroutine, logged once, and ends by
// itself.
func TestOutageEndsWithAConfirmedProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var missing atomic.Bool
		missing.Store(true)
		o, text := newOutages(&missing)
		probes, probe := atomic.Int32{}, o.probe
		o.probe = func(ctx context.Context, confirm string) error {
			probes.Add(1)
			return probe(ctx, confirm)
		}
		var writers sync.WaitGroup
		for range 10 {
			writers.Go(func() { o.begin("", "key") })
		}
		writers.Wait()
		ended := o.of("")
		time.Sleep(10 * time.Second)
		if n := probes.Load(); n != 10 {
			t.Errorf("%d probes in ten seconds, want 10", n)
		}
		if !o.any() || testutil.ToFloat64(o.metrics.degraded) != 1 {
			t.Error("the outage is not known")
		}
		missing.Store(false)
		<-ended
		if o.any() || o.of("") != nil || testutil.ToFloat64(o.metrics.degraded) != 0 {
			t.Error("the outage has not ended")
		}
		if n := strings.Count(text.String(), "\n"); n != 2 {
			t.Errorf("logged:\n%s", text)
		}
		o.begin("", "key")
		<-o.of("")
		if n := strings.Count(text.String(), "\n"); n != 4 {
			t.Errorf("after a second outage, logged:\n%s", text)
		}
	})
}

// Slots of a cluster have outages of their own, and one line of the log at the begin and the end
// of all.
func TestOutagesOfSlotsAreSeparate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var missing atomic.Bool
		missing.Store(true)
		o, text := newOutages(&missing)
		o.begin("a", "a")
		o.begin("b", "b")
		if o.of("a") == nil || o.of("b") == nil || o.of("c") != nil {
			t.Error("the outages are not those of a and b")
		}
		missing.Store(false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := strings.Count(text.String(), "\n"); o.any() || n != 2 {
			t.Errorf("under way %t, logged:\n%s", o.any(), text)
		}
	})
}

func TestClosingEndsTheProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var missing atomic.Bool
		missing.Store(true)
		o, _ := newOutages(&missing)
		o.probe = func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
		o.begin("", "key")
		ended := o.of("")
		if err := o.probes.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-ended
		o.begin("other", "key")
		if o.of("other") != nil {
			t.Error("an outage begins after the end")
		}
	})
}

func TestWhatAWriteDoesWithoutReplicas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		replicas        int
		missing, accept bool
		waits           bool
		err             error
	}{
		{"no replicas are demanded", 0, false, false, false, nil},
		{"replicas are there", 1, false, false, true, nil},
		{"they are there, and would not be needed", 1, false, true, true, nil},
		{"they are missing", 1, true, false, false, ErrNotWritten},
		{"they are missing and not needed", 1, true, true, false, nil},
	} {
		r := &Replicas{Want: c.replicas, accept: c.accept, servers: &Servers{}}
		if c.missing {
			r.outages.ended = map[string]chan struct{}{"": make(chan struct{})}
		}
		if waits, err := r.Waits("key"); waits != c.waits || !errors.Is(err, c.err) {
			t.Errorf("%s: a write waits %t, %v; want %t, %v", c.name, waits, err, c.waits, c.err)
		}
	}
}

// Only a change that was carried out stands.
func TestWhatWasNotWrittenDoesNotStand(t *testing.T) {
	t.Parallel()
	if Stands(ErrNotWritten) || !Stands(ErrReplicas) {
		t.Error("a change that was not written stands, or one without replicas does not")
	}
}
