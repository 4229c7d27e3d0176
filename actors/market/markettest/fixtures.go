package markettest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
)

// FlatBar returns a bar in which the price does not move. Times are in milliseconds.
func FlatBar(opens, length int64, price float64) marketdata.Bar {
	p := price
	return marketdata.Bar{OpenTime: opens, CloseTime: opens + length, Open: p, High: p, Low: p, Close: p}
}

type idle struct{}

func (idle) Receive(engine.Context) {}

// Refs returns n Refs of different actors that ignore their messages.
func Refs(tb testing.TB, n int) []engine.Ref {
	tb.Helper()
	sys := engine.NewSystem(engine.Options{})
	tb.Cleanup(func() { sys.Shutdown(context.Background()) })
	list := make([]engine.Ref, n)
	for i := range list {
		list[i] = sys.Spawn(engine.Other, strconv.Itoa(i), func() engine.Actor { return idle{} }, engine.Supervision{})
	}
	return list
}

// Messages collects notifications by Ref.
type Messages map[engine.Ref][]any

// Notify adds a notification.
func (n Messages) Notify(ref engine.Ref, m any) { n[ref] = append(n[ref], m) }

// RunError returns err as the error of a run.
func RunError(tb testing.TB, err error) *signal.RunError {
	tb.Helper()
	e, ok := errors.AsType[*signal.RunError](err)
	if !ok {
		tb.Fatalf("error is %v", err)
	}
	return e
}

// WaitLimit bounds every wait of a test.
const WaitLimit = time.Minute

// Clock is a clock that a test moves.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at the beginning of a minute.
func NewClock() *Clock { return ClockAt(time.UnixMilli(1_795_253_400_000)) }

// ClockAt returns a clock that stands at a time.
func ClockAt(at time.Time) *Clock { return &Clock{now: at} }

// Now returns the time at which the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Add moves the clock on.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Instant parses a time in RFC 3339.
func Instant(tb testing.TB, text string) time.Time {
	tb.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		tb.Fatal(err)
	}
	return at
}

// Eventually waits until ok returns true.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.Now().Add(WaitLimit)
	for !ok() {
		if time.Now().After(deadline) {
			tb.Fatalf("%s: did not happen within %s", what, WaitLimit)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
