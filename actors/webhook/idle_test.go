package webhook

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// endpoints checks how many endpoints have an actor.
func (h *harness) endpoints(want int) {
	h.t.Helper()
	n, known := h.gathered(h.actors, "agentsignal_actor_running")[string(engine.Webhook)]
	if int(n) != want || !known {
		h.t.Errorf("%v endpoints have an actor, want %d", n, want)
	}
}

// An endpoint without work for a minute ends, and starts again when it is needed.
func TestPassivation(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		for range 50 {
			h.register()
		}
		h.start()
		h.emit(3)
		pass(30 * time.Second)
		h.endpoints(50)
		pass(2 * time.Minute)
		h.endpoints(0)
		h.emit(1)
		pass(time.Second)
		h.attempts(200)
	})
}

// A message that arrives while an endpoint ends is not lost.
func TestAMessageToAnEndpointThatEnds(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(nil)
		var events []signal.EventID
		for i := range 40 { // around the second idleDue, a minute or two after the start
			events = append(events, h.emit(1)...)
			pass(2*time.Minute + time.Duration(i-20)*time.Millisecond)
		}
		for range 40 {
			events = append(events, h.emit(1)...)
			time.Sleep(time.Minute) // exactly at an idleDue
		}
		pass(time.Second)
		h.once(id, events)
		for _, s := range h.sender.sent() {
			if late := s.At.Sub(h.store.delivery(s.Delivery).CreatedAt); late > time.Second {
				t.Errorf("sent %v late", late)
			}
		}
	})
}

// probe is the partition's webhooks, which calls functions that it receives.
type probe struct{ *webhooks }

func (p probe) Receive(c engine.Context) {
	if f, ok := c.Message().(func(engine.Context, *webhooks)); ok {
		f(c, p.webhooks)
		return
	}
	p.webhooks.Receive(c)
}

// An endpoint that wants to end before it has received a message keeps running.
func TestTheParentRefusesToEndAnEndpoint(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		defer h.stop()
		id := h.register()
		o := &owned{Node: h.node, Owned: ownership.Owned{Epoch: 1}, log: h.node.log}
		o.recorder = newRecorder(o)
		produce := func() engine.Actor { return probe{newWebhooks(o)} }
		parent := h.system.Spawn(engine.Supervisor, "webhooks", produce, engine.Supervision{})
		parent.Tell(forEndpoint{h.account, id, deliveriesChanged{}})
		synctest.Wait()
		parent.Tell(func(c engine.Context, p *webhooks) {
			e := p.children[id]
			p.notify(c, h.account, id, pollNow{})
			p.onEndpointIdle(c, endpointIdle{id: id, ref: e.ref, received: 1}) // sent before it received pollNow
			if p.children[id] != e {
				t.Error("it was ended with a message in its mailbox")
			}
		})
		synctest.Wait()
		h.endpoints(1)
		pass(3 * time.Minute)
		h.endpoints(0)
	})
}

// An endpoint with a delivery due soon keeps running.
func TestAnEndpointRunsUntilARetry(t *testing.T) {
	// Its idleDue come at 61 s and 121 s; the parent scans at 120 s and 125 s.
	retries := func(o *Options) { o.Schedule.Retries = []time.Duration{122500 * time.Millisecond} }
	withHarnessOptions(t, retries, func(t *testing.T, h *harness) {
		h.serve(answers503)
		pass(time.Second)
		h.emit(1)
		pass(5 * time.Minute)
		all := h.sender.sent()
		if len(all) != 2 || all[1].At.Sub(all[0].ended) > 123*time.Second {
			t.Errorf("%d attempts, the last %v after the first", len(all), all[len(all)-1].At.Sub(all[0].ended))
		}
	})
}
