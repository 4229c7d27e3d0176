package webhook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/retryafter"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// Results of attempts that took two seconds.
var (
	wentWell = sender.Result{At: vectorTime, Duration: 2 * time.Second, Status: 204, Class: sender.ClassSuccess}
	busy     = sender.Result{At: vectorTime, Duration: 2 * time.Second, Status: 503, Error: "status 503", Class: sender.ClassServerError, Body: "busy"}
	timedOut = sender.Result{At: vectorTime, Duration: 15 * time.Second, Error: "timeout", Class: sender.ClassTimeout}
)

// askingFor is busy with a Retry-After.
func askingFor(d time.Duration) sender.Result {
	r := busy
	r.RetryAfter = d
	return r
}

// waiting returns a pending delivery of which so many attempts of the schedule failed.
func waiting(scheduled int) delivery.Delivery {
	d := delivery.Delivery{ID: "dlv_1", Event: "evt_1", Status: delivery.Pending, CreatedAt: vectorTime, NextAttemptAt: vectorTime, Scheduled: scheduled}
	for n := range scheduled {
		d.Attempts = append(d.Attempts, delivery.Attempt{Number: n + 1, Trigger: delivery.Scheduled, Error: "timeout"})
		d.Error = "timeout"
	}
	return d
}

// single is waiting for one attempt without others behind it.
func single(scheduled int) delivery.Delivery {
	d := waiting(scheduled)
	d.Single = true
	return d
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	const manual, schedule = delivery.Manual, delivery.Scheduled
	s := Schedule{}
	tests := []struct {
		name     string
		schedule Schedule
		delivery delivery.Delivery
		trigger  delivery.Trigger
		result   sender.Result
		jitter   float64
		want     string
	}{
		{"the first attempt succeeds", s, waiting(0), schedule, wentWell, 0, "succeeded"},
		{"a retry succeeds", s, waiting(3), schedule, wentWell, 0, "succeeded"},
		{"the last retry succeeds", s, waiting(6), schedule, wentWell, 0, "succeeded"},
		{"the first attempt fails", s, waiting(0), schedule, timedOut, 0, "pending for 30s: timeout"},
		{"the first retry fails", s, waiting(1), schedule, busy, 0, "pending for 2m0s: status 503"},
		{"the second retry fails", s, waiting(2), schedule, busy, 0, "pending for 10m0s: status 503"},
		{"the third retry fails", s, waiting(3), schedule, busy, 0, "pending for 30m0s: status 503"},
		{"the fourth retry fails", s, waiting(4), schedule, busy, 0, "pending for 2h0m0s: status 503"},
		{"the fifth retry fails", s, waiting(5), schedule, busy, 0, "pending for 8h0m0s: status 503"},
		{"the sixth retry fails", s, waiting(6), schedule, busy, 0, "failed: status 503"},
		{"the sixth retry fails and asks for a seventh", s, waiting(6), schedule, askingFor(time.Minute), 0, "failed: status 503"},

		{"a manual attempt succeeds", s, single(7), manual, wentWell, 0, "succeeded"},
		{"a manual attempt fails", s, single(7), manual, busy, 0, "failed: status 503"},
		{"a manual attempt fails where retries would be left", s, single(1), manual, busy, 0, "failed: status 503"},
		{"a manual attempt fails though the delivery is not marked", s, waiting(1), manual, busy, 0, "failed: status 503"},
		{"the test of a disabled webhook fails", s, single(0), schedule, busy, 0, "failed: status 503"},

		{"Retry-After is shorter than the delay", s, waiting(0), schedule, askingFor(10 * time.Second), 0, "pending for 30s: status 503"},
		{"Retry-After is longer than the delay", s, waiting(0), schedule, askingFor(5 * time.Minute), 0, "pending for 5m0s: status 503"},
		{"Retry-After is an hour after the delay", s, waiting(1), schedule, askingFor(time.Hour + 2*time.Minute), 0, "pending for 1h2m0s: status 503"},
		{"Retry-After is more than an hour after the delay", s, waiting(1), schedule, askingFor(24 * time.Hour), 0, "pending for 1h2m0s: status 503"},
		{"Retry-After is within the longest delay", s, waiting(5), schedule, askingFor(2 * time.Hour), 0, "pending for 8h0m0s: status 503"},
		{"Retry-After is a year", s, waiting(5), schedule, askingFor(retryafter.Max), 0, "pending for 9h0m0s: status 503"},

		{"with jitter, early", Schedule{Jitter: 0.5}, waiting(1), schedule, busy, -1, "pending for 1m0s: status 503"},
		{"with jitter, late", Schedule{Jitter: 0.5}, waiting(1), schedule, busy, 1, "pending for 3m0s: status 503"},
		{"with jitter, in between", Schedule{Jitter: 0.2}, waiting(1), schedule, busy, 0.5, "pending for 2m12s: status 503"},
		{"with jitter that would undercut Retry-After", Schedule{Jitter: 0.5}, waiting(1), schedule, askingFor(100 * time.Second), -1, "pending for 1m40s: status 503"},
		{"without retries", Schedule{Retries: []time.Duration{}}, waiting(0), schedule, busy, 0, "failed: status 503"},
		{"with one retry, the first attempt fails", Schedule{Retries: []time.Duration{time.Second}}, waiting(0), schedule, busy, 0, "pending for 1s: status 503"},
		{"with one retry, that fails", Schedule{Retries: []time.Duration{time.Second}}, waiting(1), schedule, busy, 0, "failed: status 503"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			now := vectorTime.Add(2 * time.Second)
			got := test.schedule.After(test.delivery, test.trigger, test.result, now, test.jitter)
			text := string(got.Status)
			if got.Status == delivery.Pending {
				text += fmt.Sprint(" for ", got.NextAttemptAt.Sub(now))
			}
			if got.Error != "" {
				text += ": " + got.Error
			}
			if text != test.want {
				t.Errorf("it is %s, want %s", text, test.want)
			}
			if ended := got.Status != delivery.Pending; ended != got.CompletedAt.Equal(now) || ended != got.NextAttemptAt.IsZero() {
				t.Errorf("it is %s, completed at %s, next attempt at %s", got.Status, got.CompletedAt, got.NextAttemptAt)
			}
			if got.Single {
				t.Error("it is still marked for a single attempt")
			}
			if got.ID != test.delivery.ID || got.Event != test.delivery.Event || !got.CreatedAt.Equal(test.delivery.CreatedAt) {
				t.Error("it is another delivery")
			}
		})
	}
}

// TestAWholeSchedule holds the published table: seven requests over 10 h 42 min 30 s.
func TestAWholeSchedule(t *testing.T) {
	t.Parallel()
	d, now := waiting(0), vectorTime
	var attempts []string
	for range 20 {
		if d.Status != delivery.Pending {
			break
		}
		now = d.NextAttemptAt
		attempts = append(attempts, now.Sub(vectorTime).String())
		d = Schedule{}.After(d, delivery.Scheduled, busy, now, 0)
	}
	want := []string{"0s", "30s", "2m30s", "12m30s", "42m30s", "2h42m30s", "10h42m30s"}
	if diff := cmp.Diff(want, attempts); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	if d.Status != delivery.Failed || d.Scheduled != 7 || d.AttemptCount() != 7 {
		t.Errorf("it is %s after %d attempts, %d of the schedule", d.Status, d.AttemptCount(), d.Scheduled)
	}
	// A manual attempt counts on and leaves the schedule at its end.
	d.Status, d.Single = delivery.Pending, true
	d = Schedule{}.After(d, delivery.Manual, wentWell, now, 0)
	last := d.Attempts[len(d.Attempts)-1]
	want8 := delivery.Attempt{Number: 8, Trigger: delivery.Manual, At: vectorTime, Duration: 2 * time.Second, ResponseStatus: 204}
	if diff := cmp.Diff(want8, last); diff != "" || d.Scheduled != 7 || d.Error != "" {
		t.Errorf("the eighth attempt (-want +got):\n%s\nscheduled %d, error %q", diff, d.Scheduled, d.Error)
	}
}

func TestAttemptsAreRememberedUpToALimit(t *testing.T) {
	t.Parallel()
	d := waiting(0)
	for range 60 {
		d = Schedule{}.After(d, delivery.Manual, busy, vectorTime, 0)
	}
	if len(d.Attempts) != 50 || d.Attempts[0].Number != 11 || d.AttemptCount() != 60 {
		t.Errorf("%d are remembered, from number %d to %d", len(d.Attempts), d.Attempts[0].Number, d.AttemptCount())
	}
}

func TestTheDeliveryBeforeIsNotChanged(t *testing.T) {
	t.Parallel()
	before := waiting(2)
	before.Attempts = append(make([]delivery.Attempt, 0, 10), before.Attempts...)
	first := Schedule{}.After(before, delivery.Scheduled, busy, vectorTime, 0)
	second := Schedule{}.After(before, delivery.Scheduled, timedOut, vectorTime, 0)
	if first.Attempts[2].Error != "status 503" || second.Attempts[2].Error != "timeout" {
		t.Error("two outcomes of one delivery share their attempts")
	}
	if diff := cmp.Diff(waiting(2), before); diff != "" {
		t.Errorf("delivery (-want +got):\n%s", diff)
	}
}

// Of the answers to earlier attempts the beginning is kept, which ends between two
// characters.
func TestEarlierAnswersAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", delivery.MaxResponseBody/2)
	odd := "x" + strings.Repeat("ä", delivery.MaxEarlierBody)
	d := delivery.Delivery{Status: delivery.Pending}
	for _, body := range []string{long, odd, "short", long} {
		d = Schedule{}.After(d, delivery.Scheduled, sender.Result{Status: 503, Error: "status 503", Body: body}, time.Now(), 0)
	}
	want := []string{long[:delivery.MaxEarlierBody], odd[:delivery.MaxEarlierBody-1], "short", long}
	for i, a := range d.Attempts {
		if a.ResponseBody != want[i] {
			t.Errorf("attempt %d: %d bytes are kept, want %d", i+1, len(a.ResponseBody), len(want[i]))
		}
	}
}
