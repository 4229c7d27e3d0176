package webhook

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/ownership"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// endpoints returns how many endpoints have an actor.
func (w *world) endpoints() int {
	families, err := w.actors.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "agentsignal_actor_running" && m.GetLabel()[0].GetValue() == string(engine.Webhook) {
				return int(m.GetGauge().GetValue())
			}
		}
	}
	w.t.Fatal("actors are not counted")
	return 0
}

// Whatever has nothing to do for a minute ends, and is there again when it is needed.
func TestPassivation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for range 50 {
			w.register()
		}
		w.start()
		w.emit(3)
		pass(30 * time.Second)
		if n := w.endpoints(); n != 50 {
			t.Errorf("%d endpoints have an actor, want 50", n)
		}
		pass(2 * time.Minute)
		if n := w.endpoints(); n != 0 {
			t.Errorf("%d endpoints have an actor after two minutes, want 0", n)
		}
		w.emit(1)
		pass(time.Second)
		if n := len(w.sender.sent()); n != 200 {
			t.Errorf("%d requests, want 200", n)
		}
	})
}

// A message that comes in the moment in which an endpoint rests is not lost.
func TestAMessageAtTheMomentOfRest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.register()
		w.start()
		var events []signal.EventID
		for i := range 40 { // around the second look, a minute or two after the start
			events = append(events, w.emit(1)...)
			pass(2*time.Minute + time.Duration(i-20)*time.Millisecond)
		}
		for range 40 {
			events = append(events, w.emit(1)...)
			time.Sleep(time.Minute) // exactly when it looks
		}
		pass(time.Second)
		w.once(id, events)
		for _, s := range w.sender.sent() {
			if late := s.At.Sub(w.store.delivery(s.Delivery).CreatedAt); late > time.Second {
				t.Errorf("sent %v late", late)
			}
		}
	})
}

// probe is the partition's webhooks, to which a test may tell what to do.
type probe struct{ *webhooks }

func (p probe) Receive(c engine.Context) {
	if f, ok := c.Message().(func(engine.Context, *webhooks)); ok {
		f(c, p.webhooks)
		return
	}
	p.webhooks.Receive(c)
}

// An endpoint that wants to end while a message is under way to it stays.
func TestRestNeedsTheParent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		defer w.stop()
		id := w.register()
		o := &owned{Node: w.node, Owned: ownership.Owned{Epoch: 1}, log: w.node.log}
		o.recorder = newRecorder(o)
		parent := w.system.Spawn(engine.Supervisor, "webhooks", func() engine.Actor { return probe{newWebhooks(o)} }, engine.Supervision{})
		parent.Tell(webhookDeliveriesChanged{w.account, id})
		synctest.Wait()
		parent.Tell(func(c engine.Context, p *webhooks) {
			e := p.children[id]
			p.notify(c, w.account, id, pollNow{})
			p.onEndpointIdle(c, endpointIdle{id: id, ref: e.ref, received: 1}) // sent before it heard of look
			if p.children[id] != e {
				t.Error("it was ended with a message in its mailbox")
			}
		})
		synctest.Wait()
		if n := w.endpoints(); n != 1 {
			t.Errorf("%d endpoints have an actor, want 1", n)
		}
		pass(3 * time.Minute)
		if n := w.endpoints(); n != 0 {
			t.Errorf("%d endpoints have an actor at last, want 0", n)
		}
	})
}

// Whoever has something due soon does not rest.
func TestNoRestBeforeARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// It looks at 61 s and 121 s; the parent scans at 120 s and 125 s.
		w := newWorld(t, func(o *Options) { o.Schedule.Retries = []time.Duration{122500 * time.Millisecond} })
		w.register()
		w.sender.script(answers503)
		w.start()
		pass(time.Second)
		w.emit(1)
		pass(5 * time.Minute)
		all := w.sender.sent()
		if len(all) != 2 || all[1].At.Sub(all[0].ended) > 123*time.Second {
			t.Errorf("%d attempts, the last %v after the first", len(all), all[len(all)-1].At.Sub(all[0].ended))
		}
	})
}
