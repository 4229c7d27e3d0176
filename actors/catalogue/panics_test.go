package catalogue

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// panickingRecords panics in the middle of its first pass.
type panickingRecords struct {
	*fakeLog
	passes int
}

func (r *panickingRecords) ScanSignals(ctx context.Context, p int, f func(signal.LogEntry) error) error {
	if r.passes++; r.passes == 1 {
		panic("an entry")
	}
	return r.fakeLog.ScanSignals(ctx, p, f)
}

func TestPassThatPanicsIsRepeated(t *testing.T) {
	t.Parallel()
	f := &fakeLog{}
	c := New(f, &panickingRecords{fakeLog: f}, 1, Options{})
	if _, _, err := c.List(t.Context(), Query{Account: acc, Limit: 10}); err == nil {
		t.Error("the list of a pass that panicked is returned")
	}
	if _, _, err := c.List(t.Context(), Query{Account: acc, Limit: 10}); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// unnamed returns an Options.Name that panics for one asset the given number of times.
func unnamed(asset string, times int) func(string) string {
	return func(name string) string {
		if name == asset && times > 0 {
			times--
			panic("at a name")
		}
		return name
	}
}

// createdAt returns the creation of a signal on an asset.
func createdAt(ms int64, asset string) signal.Event {
	price := 1.5
	return signal.Event{Account: acc, Type: signal.SignalCreated, Position: signal.Position{MS: ms},
		Listing: &signal.Listing{ID: signal.NewSignalID(), Asset: asset, Strategy: "momentum", Direction: signal.Long,
			Entry: &price}}
}

func TestSignalThatPanicsIsSkippedAndLogged(t *testing.T) {
	t.Parallel()
	f := &fakeLog{}
	now := time.Now().UnixMilli()
	f.add(createdAt(now, "AAA"), createdAt(now+1, "BBB"), createdAt(now+2, "CCC"))
	var out strings.Builder
	c := New(f, f, 1, Options{Name: unnamed("BBB", 1), Log: slog.New(slog.NewTextHandler(&out, nil))})
	if _, n, err := c.List(t.Context(), Query{Account: acc, Limit: 10}); err != nil || n != 2 {
		t.Errorf("%d signals are listed, %v; want 2", n, err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 1 ||
		!strings.Contains(out.String(), "signal="+string(f.events[1].Listing.ID)) {
		t.Errorf("%d lines are logged, want one with the signal:\n%s", lines, out.String())
	}
}

func TestEventThatPanicsDuringThePassFailsIt(t *testing.T) {
	t.Parallel()
	f := &fakeLog{scanned: make(chan struct{})}
	c := New(f, f, 1, Options{Name: unnamed("BBB", 1)})
	c.partitions.list[0].mu.Lock()
	c.partitions.begin(t.Context(), 0)
	c.partitions.list[0].mu.Unlock()
	event := createdAt(time.Now().UnixMilli(), "BBB")
	c.Publish(0, []signal.Event{event})
	close(f.scanned)
	if _, _, err := c.List(t.Context(), Query{Account: acc, Limit: 10}); err == nil {
		t.Error("a list without the event is returned")
	}
	f.add(event)
	if _, n, err := c.List(t.Context(), Query{Account: acc, Limit: 10}); err != nil || n != 1 {
		t.Errorf("the next pass lists %d signals, %v; want 1", n, err)
	}
}
