package webhook

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// answersWait is an answer with a status that asks for a wait. It takes 10 ms.
func answersWait(status int, wait time.Duration) answer {
	return after(10*time.Millisecond, func(_ context.Context, r sender.Request) sender.Result {
		return sender.Result{At: r.At, Status: status, Error: fmt.Sprint("status ", status),
			Class: sender.ClassClientError, RetryAfter: wait}
	})
}

// tried returns the sum of the attempts of all deliveries to a webhook.
func (h *harness) tried(id signal.WebhookID) (n int) {
	h.store.set(func() {
		for _, d := range h.store.deliveries {
			if d.Webhook == id {
				n += d.AttemptCount()
			}
		}
	})
	return n
}

// held checks how long a webhook is still held by its stored health and by the metric; 0 if it is not.
func (h *harness) held(id signal.WebhookID, want time.Duration) {
	h.t.Helper()
	left := time.Duration(0)
	if until := h.store.healthOf(id).HeldUntil; until.After(time.Now()) {
		left = time.Until(until).Round(100 * time.Millisecond)
	}
	if left != want {
		h.t.Errorf("it is held for %s, want %s", left, want)
	}
	gauge := 0.0
	if want > 0 {
		gauge = 1
	}
	if got := h.gathered(h.metrics, "agentsignal_webhooks_held")[""]; got != gauge {
		h.t.Errorf("%v webhooks are held, want %v", got, gauge)
	}
}

// An answer 429 or 503 with a wait holds all deliveries of the endpoint, not only the one that it answers. One
// request in each wait is a probe, and a success opens the endpoint.
func TestWaitHoldsTheEndpoint(t *testing.T) {
	for _, status := range []int{429, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				id := h.serve(answersWait(status, time.Minute))
				events := h.emit(40)
				pass(time.Second)
				h.attempts(DefaultConcurrency, id) // those that were sent before the first answer
				h.held(id, 59*time.Second)
				for minute := range 12 {
					events = append(events, h.emit(1)...)
					pass(time.Minute)
					h.attempts(DefaultConcurrency+minute+1, id)
				}
				h.peak(id, DefaultConcurrency)
				if n := h.tried(id); n != DefaultConcurrency+12 {
					t.Errorf("%d attempts are spent on %d requests", n, DefaultConcurrency+12)
				}
				h.store.set(func() {
					for _, d := range h.store.deliveries {
						if d.AttemptCount() > 1 {
							t.Errorf("%d attempts of one delivery are spent, while others have none", d.AttemptCount())
						}
					}
				})
				if n := h.store.healthOf(id).Failures; n != DefaultConcurrency+12 {
					t.Errorf("%d failures count", n)
				}
				h.sender.script(answers200)
				pass(3 * time.Minute) // the next probe, and the retries of those that had failed
				h.statuses(id, map[string]int{"succeeded": len(events)})
				h.held(id, 0)
				if health := h.store.healthOf(id); health != (delivery.WebhookHealth{}) {
					t.Errorf("the health is %+v", health)
				}
			})
		})
	}
}

// At most an hour of a wait counts, and an absurd one does not hold the endpoint longer.
func TestWaitIsBounded(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(answersWait(429, 365*24*time.Hour))
		h.emit(1)
		pass(time.Second)
		h.sender.script(answers200)
		events := h.emit(1)
		pass(time.Hour - 2*time.Second)
		h.attempts(1, id)
		pass(2 * time.Second)
		h.once(id, events)
	})
}

// The next owner of the partition continues the wait, and sends a probe first.
func TestWaitSurvivesTheOwner(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(answersWait(429, time.Minute))
		h.emit(20)
		pass(10 * time.Second)
		next := h.takeOver(true)
		next.emit(20)
		pass(49 * time.Second)
		next.attempts(DefaultConcurrency, id)
		next.held(id, time.Second)
		next = next.takeOver(true)
		next.sender.script(hangs)
		next.peak(id, DefaultConcurrency)
		pass(30 * time.Second)
		next.peak(id, 1)
	})
}

// Tests and manual retries wait like all others and spend no attempt. Enabling the webhook ends the wait.
func TestEnablingEndsTheWait(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(answersWait(429, 30*time.Minute))
		h.emit(1)
		pass(time.Second)
		test := h.pendingDelivery(id, time.Now())
		test.Type = signal.WebhookTest
		h.store.create(test, `{"type":"webhook.test"}`)
		failed := h.backlogged(id, 1)[0]
		h.store.cancel(failed)
		h.store.retry(failed)
		pass(time.Minute)
		h.attempts(1, id)
		h.sender.script(answers200)
		h.store.enable(id)
		pass(time.Second)
		h.attempts(3, id)
		h.held(id, 0)
	})
}

// So it does where a success of a request from before the wait has cleared the failures and not the wait.
func TestEnablingEndsTheWaitAfterALateSuccess(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		limited := answersWait(429, 30*time.Minute)
		var first atomic.Bool
		id := h.serve(func(ctx context.Context, r sender.Request) sender.Result {
			if first.CompareAndSwap(false, true) {
				return limited(ctx, r)
			}
			return after(5*time.Second, answers200)(ctx, r)
		})
		h.emit(1)
		events := h.emit(1)
		pass(10 * time.Second)
		events = append(events, h.emit(5)...)
		pass(time.Second)
		if health := h.store.healthOf(id); !health.FailingSince.IsZero() {
			t.Fatalf("the health is %+v", health)
		}
		h.held(id, 30*time.Minute-11*time.Second)
		h.sender.script(answers200)
		h.store.enable(id)
		pass(time.Second)
		h.statuses(id, map[string]int{"succeeded": len(events), "pending, status 429": 1})
		h.held(id, 0)
	})
}

// A webhook that is disabled while it is held fails its deliveries at once.
func TestDisabledWhileItIsHeld(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(answersWait(429, 30*time.Minute))
		h.emit(20)
		pass(time.Second)
		h.store.disable(id)
		pass(time.Second)
		h.statuses(id, map[string]int{"failed, cancelled": 20})
		h.attempts(DefaultConcurrency, id)
	})
}

// A failed manual retry has no other attempt, and a delivery with fewer attempts more to come: the probe is the one
// that loses least.
func TestProbeIsTheOneWithMostToCome(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.register()
		ids := h.backlogged(id, 4)
		h.store.set(func() {
			h.store.health[id] = delivery.WebhookHealth{FailingSince: time.Now(), HeldUntil: time.Now().Add(time.Second)}
			h.store.deliveries[ids[0]].Single = true
			for i, n := range []int{0, 5, 2, 2} {
				d := &h.store.deliveries[ids[i]].Delivery
				d.Scheduled = n
				for k := range n {
					d.Attempts = append(d.Attempts, delivery.Attempt{Number: k + 1, Error: "status 429"})
				}
			}
		})
		h.sender.script(answersWait(429, time.Minute))
		h.start()
		pass(5 * time.Minute)
		var got []signal.DeliveryID
		for _, s := range h.attempts(4, id) {
			got = append(got, s.Delivery)
		}
		if want := []signal.DeliveryID{ids[2], ids[3], ids[1], ids[0]}; !slices.Equal(got, want) {
			t.Errorf("probes %v, want %v", got, want)
		}
	})
}

// While an endpoint is held, the memory for new deliveries is left to others.
func TestHeldEndpointHoldsNoDeliveries(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.serve(answersWait(429, 10*time.Minute))
		h.emit(300)
		pass(time.Second)
		h.emit(300)
		pass(time.Second)
		if n := h.node.liveLeft.Load(); n != maxLiveNode {
			t.Errorf("%d more fit, want %d", n, maxLiveNode)
		}
		if h.stored() != h.end() {
			t.Error("the position in the log waits for deliveries of a held endpoint")
		}
	})
}

// limitedTo sets the rate of a webhook.
func limitedTo(perMinute int) func(hook *delivery.Webhook) {
	return func(hook *delivery.Webhook) { allEvents(hook); hook.MaxPerMinute = perMinute }
}

// A rate spreads the requests evenly, costs no attempt and no failure, and is that of the format unless another is
// given.
func TestRateOfAnEndpoint(t *testing.T) {
	tests := []struct {
		format    delivery.Format
		perMinute int
		want      time.Duration // between two requests
	}{
		{delivery.Slack, 0, time.Second}, {delivery.Discord, 0, 2 * time.Second}, {delivery.Telegram, 0, 3 * time.Second},
		{delivery.Ntfy, 0, 5 * time.Second}, {delivery.Standard, 0, 0}, {delivery.Template, 0, 0},
		{delivery.Standard, 1, time.Minute}, {delivery.Telegram, 60, time.Second},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.format, test.perMinute), func(t *testing.T) {
			withHarness(t, func(t *testing.T, h *harness) {
				id := h.serve(after(900*time.Millisecond, answers200), limitedTo(test.perMinute), func(hook *delivery.Webhook) {
					hook.Format, hook.Template, hook.ChatID = test.format, "{{.type}}", "1"
				})
				h.emit(8)
				pass(2 * time.Minute)
				h.emit(2) // after a while without work, the first is sent at once
				pass(10 * time.Minute)
				sent := h.attempts(10)
				for i := 1; i < 8; i++ {
					if got := sent[i].At.Sub(sent[i-1].At).Round(100 * time.Millisecond); got != test.want {
						t.Errorf("request %d comes %s after the one before, want %s", i, got, test.want)
					}
				}
				h.statuses(id, map[string]int{"succeeded": 10})
				if n := h.tried(id); n != 10 || h.store.healthOf(id) != (delivery.WebhookHealth{}) {
					t.Errorf("%d attempts, health %+v", n, h.store.healthOf(id))
				}
			})
		})
	}
}

// The next request waits for its turn, not for the answer to the one before.
func TestRateDoesNotWaitForAnswers(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(after(14*time.Second, answers200), limitedTo(60))
		h.emit(5)
		pass(4900 * time.Millisecond)
		h.peak(id, 5)
	})
}

// A turn that comes while the endpoint looks for it is not missed: nothing else would send what waits. The clock
// advances with each reading, by more than the answers differ.
func TestRateWithATurnBetweenTwoReadingsOfTheClock(t *testing.T) {
	var readings atomic.Int64
	withHarnessOptions(t, func(o *Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(readings.Add(1)) * 100 * time.Millisecond) }
	}, func(t *testing.T, h *harness) {
		var requests atomic.Int64
		id := h.serve(func(ctx context.Context, r sender.Request) sender.Result {
			return after(time.Duration(requests.Add(1))*25*time.Millisecond, answers200)(ctx, r)
		}, limitedTo(30))
		events := h.emit(60)
		pass(10 * time.Minute)
		h.once(id, events)
	})
}

// A high rate is reached although timers are late, and a low one keeps little in memory.
func TestHighAndLowRate(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		id := h.serve(after(200*time.Millisecond, answers200), limitedTo(1500))
		events := h.emit(300)
		pass(15 * time.Second)
		h.once(id, events)
		at := h.attempts(300, id)
		if took := at[299].At.Sub(at[0].At); took < 11800*time.Millisecond || took > 13*time.Second {
			t.Errorf("300 requests of 25 a second take %s", took)
		}
		h.store.change(id, limitedTo(1))
		pass(time.Second)
		h.emit(20)
		pass(time.Second)
		if n := maxLiveNode - h.node.liveLeft.Load(); n > 1 {
			t.Errorf("%d deliveries wait in memory for a request a minute", n)
		}
		pass(10 * time.Minute)
		h.attempts(311, id)
		h.store.change(id, limitedTo(0))
		pass(time.Second)
		h.attempts(320, id)
	})
}

// scripted is an endpoint that gives one answer after the other, and then 200.
type scripted struct {
	mu      sync.Mutex
	answers []reply
	given   []reply
}

// reply is an answer, and a request that got it.
type reply struct {
	Status     int // 0 for a timeout
	Wait       time.Duration
	Takes      time.Duration
	began, end time.Time
}

func (s *scripted) answer(ctx context.Context, r sender.Request) sender.Result {
	s.mu.Lock()
	a := reply{Status: 200, Takes: 20 * time.Millisecond}
	if len(s.answers) > 0 {
		a, s.answers = s.answers[0], s.answers[1:]
	}
	s.mu.Unlock()
	a.began = time.Now()
	result := after(a.Takes, func(_ context.Context, r sender.Request) sender.Result {
		switch a.Status {
		case 0:
			return sender.Result{At: r.At, Class: sender.ClassTimeout, Error: "timeout"}
		case 200:
			return sender.Result{At: r.At, Status: 200, Class: sender.ClassSuccess}
		}
		return sender.Result{At: r.At, Status: a.Status, Class: sender.ClassClientError, RetryAfter: a.Wait,
			Error: fmt.Sprint("status ", a.Status)}
	})(ctx, r)
	a.end = time.Now()
	if ctx.Err() == nil {
		s.mu.Lock()
		s.given = append(s.given, a)
		s.mu.Unlock()
	}
	return result
}

// check returns what is wrong with the times of the requests.
func (s *scripted) check() error {
	for _, held := range s.given {
		if held.Wait == 0 {
			continue
		}
		until := held.end.Add(min(held.Wait, time.Hour))
		probes := 0
		for _, r := range s.given {
			if r.began.After(held.end) && r.began.Before(until) {
				return fmt.Errorf("a request after %s of a wait of %s", r.began.Sub(held.end), held.Wait)
			}
			opened := slices.ContainsFunc(s.given, func(o reply) bool {
				return o.Status == 200 && !o.end.Before(until) && !o.end.After(r.began)
			})
			if opened || !r.end.After(until) {
				continue
			}
			for _, o := range s.given { // the endpoint was still closed when r began, and so it was for o
				if !r.began.Before(until) && o.began.After(r.began) && o.began.Before(r.end) {
					probes++
				}
			}
		}
		if probes > 0 {
			return fmt.Errorf("%d requests began beside a probe", probes)
		}
	}
	return nil
}

// checkRate returns whether there were too many requests in any minute. An owner does not know when the one before
// sent the last one.
func (s *scripted) checkRate(perMinute int, handOver bool) error {
	limit := perMinute + perMinute/slackPart
	if handOver {
		limit++
	}
	slices.SortFunc(s.given, func(a, b reply) int { return a.began.Compare(b.began) })
	for i := range s.given {
		if n := i + limit; perMinute > 0 && n < len(s.given) && s.given[n].began.Sub(s.given[i].began) < time.Minute {
			return fmt.Errorf("%d requests in %s", limit+1, s.given[n].began.Sub(s.given[i].began))
		}
	}
	return nil
}

// Whatever an endpoint answers: nothing is sent within a wait, then one request at a time until a success; an attempt
// is a request; the order holds; and all that has attempts left arrives.
func TestWaitsByProperty(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	seconds := func(low, high int) *rapid.Generator[time.Duration] {
		return rapid.Map(rapid.IntRange(low, high), func(n int) time.Duration { return time.Duration(n) * time.Second })
	}
	replies := rapid.Custom(func(t *rapid.T) reply {
		takes := time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0, 1, 2, 3:
			return reply{Status: 429, Takes: takes, Wait: seconds(1, 120).Draw(t, "wait")}
		case 4:
			return reply{Status: 503, Takes: takes, Wait: seconds(1, 120).Draw(t, "wait")}
		case 5:
			return reply{Status: 503, Takes: takes}
		case 6:
			return reply{Takes: 15 * time.Second}
		default:
			return reply{Status: 200, Takes: takes}
		}
	})
	retries := []time.Duration{10 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}
	rapid.Check(t, func(rt *rapid.T) {
		s := &scripted{answers: rapid.SliceOfN(replies, 1, 20).Draw(rt, "answers")}
		pauses := rapid.SliceOfN(seconds(0, 200), 1, 4).Draw(rt, "pauses")
		seed := rapid.Uint64().Draw(rt, "seed")
		handOver := rapid.Bool().Draw(rt, "takeover")
		perMinute := rapid.SampledFrom([]int{0, 0, 20, 600}).Draw(rt, "rate")
		var fault error
		synctest.Test(t, func(t *testing.T) {
			short := func(o *Options) { o.Schedule.Retries = retries }
			h := newHarness(t, short)
			l := &lives{random: rand.New(rand.NewPCG(seed, 1)), events: map[signal.SignalID][]signal.EventID{}}
			id := h.serve(s.answer, allEvents, func(hook *delivery.Webhook) { hook.MaxPerMinute = perMinute })
			for _, pause := range pauses {
				l.emit(h, 10)
				pass(pause)
			}
			if handOver {
				h = h.takeOver(false, short)
			}
			pass(90 * time.Minute)
			fault = cmp.Or(s.check(), s.checkRate(perMinute, handOver))
			requests := 0
			for _, a := range h.sender.sent() {
				if !a.cancelled {
					requests++
				}
			}
			if n := h.tried(id); fault == nil && n != requests {
				fault = fmt.Errorf("%d attempts are spent on %d requests", n, requests)
			}
			h.store.set(func() {
				for _, d := range h.store.deliveries {
					if d.Status != delivery.Succeeded && d.AttemptCount() != len(retries)+1 && fault == nil {
						fault = fmt.Errorf("a delivery is %s after %d attempts", d.Status, d.AttemptCount())
					}
				}
			})
			if len(h.store.deliveries) != len(l.all) && fault == nil {
				fault = fmt.Errorf("%d deliveries of %d events", len(h.store.deliveries), len(l.all))
			}
			l.check(t, h.sender.sent(), 10*time.Minute)
		})
		if fault != nil {
			rt.Fatal(fault)
		}
	})
}
