package markettest

import (
	"context"
	"errors"
	"strconv"
	"testing"

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
