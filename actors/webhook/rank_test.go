package webhook

import (
	"slices"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// TestEventsOfAMillisecondAreInTheOrderOfASignalsLife, whatever their random identifiers are.
func TestEventsOfAMillisecondAreInTheOrderOfASignalsLife(t *testing.T) {
	t.Parallel()
	types := []signal.EventType{signal.SignalCreated, signal.SignalUpdated, signal.SignalClosed}
	q := newQueue(&Node{}, func() {})
	for i, id := range []signal.EventID{"evt_1", "evt_2", "evt_3"} { // ascending for types that descend
		d := &item{signal: "sig_1", PendingDelivery: delivery.PendingDelivery{Delivery: delivery.Delivery{
			Event: id, Type: types[len(types)-1-i], CreatedAt: time.UnixMilli(1)}}}
		q.link(d)
	}
	var got []signal.EventType
	for _, d := range q.chains["sig_1"].items {
		got = append(got, d.Type)
	}
	if !slices.Equal(got, types) {
		t.Errorf("the order is %v, want %v", got, types)
	}
}
