package webhook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// Results of attempts.
var (
	success  = sender.Result{At: vectorTime, Duration: 2 * time.Second, Status: 204, Class: sender.ClassSuccess}
	timedOut = sender.Result{At: vectorTime, Duration: 15 * time.Second, Error: "timeout", Class: sender.ClassTimeout}
	busy     = sender.Result{
		At:       vectorTime,
		Duration: 2 * time.Second,
		Status:   503,
		Error:    "status 503",
		Class:    sender.ClassServerError,
		Body:     "busy",
	}
)

// retryAfter is busy with a Retry-After.
func retryAfter(d time.Duration) sender.Result {
	r := busy
	r.RetryAfter = d
	return r
}

// waiting returns a pending delivery with a number of failed attempts of the schedule.
func waiting(scheduled int) delivery.Delivery {
	d := delivery.Delivery{
		ID:            "dlv_1",
		Event:         "evt_1",
		Status:        delivery.Pending,
		CreatedAt:     vectorTime,
		NextAttemptAt: vectorTime,
		Scheduled:     scheduled,
	}
	for n := range scheduled {
		d.Attempts = append(d.Attempts, delivery.Attempt{Number: n + 1, Trigger: delivery.Scheduled, Error: "timeout"})
		d.Error = "timeout"
	}
	return d
}

// single is like waiting, for one last attempt.
func single(scheduled int) delivery.Delivery {
	d := waiting(scheduled)
	d.Single = true
	return d
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	const manual, schedule = delivery.Manual, delivery.Scheduled
	s, once := Schedule{}, Schedule{Retries: []time.Duration{time.Second}}
	const failed = "failed: status 503"
	in := func(delay string) string { return "pending for " + delay + ": status 503" }
	tests := []struct {
		name     string
		schedule Schedule
		delivery delivery.Delivery
		trigger  delivery.Trigger
		result   sender.Result
		jitter   float64
		want     string
	}{
		{"the first attempt succeeds", s, waiting(0), schedule, success, 0, "succeeded"},
		{"a retry succeeds", s, waiting(3), schedule, success, 0, "succeeded"},
		{"the last retry succeeds", s, waiting(6), schedule, success, 0, "succeeded"},
		{"the first attempt fails", s, waiting(0), schedule, timedOut, 0, "pending for 30s: timeout"},
		{"the first retry fails", s, waiting(1), schedule, busy, 0, in("2m0s")},
		{"the second retry fails", s, waiting(2), schedule, busy, 0, in("10m0s")},
		{"the third retry fails", s, waiting(3), schedule, busy, 0, in("30m0s")},
		{"the fourth retry fails", s, waiting(4), schedule, busy, 0, in("2h0m0s")},
		{"the fifth retry fails", s, waiting(5), schedule, busy, 0, in("8h0m0s")},
		{"the sixth retry fails", s, waiting(6), schedule, busy, 0, failed},
		{"the sixth retry fails and asks for a seventh", s, waiting(6), schedule, retryAfter(time.Minute), 0, failed},

		{"a manual attempt succeeds", s, single(7), manual, success, 0, "succeeded"},
		{"a manual attempt fails", s, single(7), manual, busy, 0, failed},
		{"a manual attempt fails where retries would be left", s, single(1), manual, busy, 0, failed},
		{"a manual attempt fails though the delivery is not marked", s, waiting(1), manual, busy, 0, failed},
		{"the test of a disabled webhook fails", s, single(0), schedule, busy, 0, failed},

		{"Retry-After < delay", s, waiting(0), schedule, retryAfter(10 * time.Second), 0, in("30s")},
		{"Retry-After > delay", s, waiting(0), schedule, retryAfter(5 * time.Minute), 0, in("5m0s")},
		{"Retry-After = delay + 1h", s, waiting(1), schedule, retryAfter(62 * time.Minute), 0, in("1h2m0s")},
		{"Retry-After > delay + 1h", s, waiting(1), schedule, retryAfter(24 * time.Hour), 0, in("1h2m0s")},
		{"Retry-After < longest delay", s, waiting(5), schedule, retryAfter(2 * time.Hour), 0, in("8h0m0s")},
		{"Retry-After is a year", s, waiting(5), schedule, retryAfter(backoff.MaxRetryAfter), 0, in("9h0m0s")},

		{"with jitter, early", Schedule{Jitter: 0.5}, waiting(1), schedule, busy, -1, in("1m0s")},
		{"with jitter, late", Schedule{Jitter: 0.5}, waiting(1), schedule, busy, 1, in("3m0s")},
		{"with jitter, in between", Schedule{Jitter: 0.2}, waiting(1), schedule, busy, 0.5, in("2m12s")},
		{"with jitter that would undercut Retry-After",
			Schedule{Jitter: 0.5}, waiting(1), schedule, retryAfter(100 * time.Second), -1, in("1m40s")},
		{"without retries", Schedule{Retries: []time.Duration{}}, waiting(0), schedule, busy, 0, failed},
		{"with one retry, the first attempt fails", once, waiting(0), schedule, busy, 0, in("1s")},
		{"with one retry, which fails", once, waiting(1), schedule, busy, 0, failed},
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
			ended := got.Status != delivery.Pending
			if ended != got.CompletedAt.Equal(now) || ended != got.NextAttemptAt.IsZero() {
				t.Errorf("it is %s, completed %s, next attempt %s", got.Status, got.CompletedAt, got.NextAttemptAt)
			}
			if got.Single {
				t.Error("it is still marked for a single attempt")
			}
			d := test.delivery
			if got.ID != d.ID || got.Event != d.Event || !got.CreatedAt.Equal(d.CreatedAt) {
				t.Error("it is another delivery")
			}
		})
	}
}

func TestAttemptsAreKeptUpToALimit(t *testing.T) {
	t.Parallel()
	d := waiting(0)
	for range 60 {
		d = Schedule{}.After(d, delivery.Manual, busy, vectorTime, 0)
	}
	if len(d.Attempts) != 50 || d.Attempts[0].Number != 11 || d.AttemptCount() != 60 {
		t.Errorf("%d are kept, from number %d to %d", len(d.Attempts), d.Attempts[0].Number, d.AttemptCount())
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

// The answers to earlier attempts are truncated between two characters.
func TestEarlierAnswersAreTruncated(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", delivery.MaxResponseBody/2)
	odd := "x" + strings.Repeat("ä", delivery.MaxEarlierBody)
	d := delivery.Delivery{Status: delivery.Pending}
	for _, body := range []string{long, odd, "short", long} {
		result := sender.Result{Status: 503, Error: "status 503", Body: body}
		d = Schedule{}.After(d, delivery.Scheduled, result, time.Now(), 0)
	}
	want := []string{long[:delivery.MaxEarlierBody], odd[:delivery.MaxEarlierBody-1], "short", long}
	for i, a := range d.Attempts {
		if a.ResponseBody != want[i] {
			t.Errorf("attempt %d: %d bytes are kept, want %d", i+1, len(a.ResponseBody), len(want[i]))
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	const h = time.Hour
	// Each attempt is the number of hours after the first one; a success has a plus sign.
	tests := []struct {
		name     string
		rules    HealthRules
		attempts string
		want     string // verdicts, with the number of the attempt
	}{
		{"it succeeds", HealthRules{}, "+0h +1h", ""},
		{"it fails once", HealthRules{}, "0h", ""},
		{"it fails for a day less a second", HealthRules{}, "0h 23h59m59s", ""},
		{"it fails for a day", HealthRules{}, "0h 24h", "2 warn"},
		{"it fails often within a second day", HealthRules{}, "0h 24h 25h 47h", "2 warn"},
		{"it fails for two days", HealthRules{}, "0h 24h 48h 49h", "2 warn, 3 warn"},
		{"it was not tried on the first day", HealthRules{}, "0h 50h 51h", "2 warn"},
		{"it fails for three days less a second", HealthRules{}, "0h 1h 2h 3h 71h59m59s", "5 warn"},
		{"it fails for three days", HealthRules{}, "0h 1h 2h 3h 72h", "5 disable"},
		{"it fails for three days, but four times only", HealthRules{}, "0h 1h 2h 72h", "4 warn"},
		{"it fails for the fifth time on the fourth day", HealthRules{}, "0h 1h 2h 72h 73h", "4 warn, 5 disable"},
		{"it fails all the time", HealthRules{}, "0h 1h 24h 48h 71h 72h", "3 warn, 4 warn, 6 disable"},
		{"one success in three days clears it", HealthRules{}, "0h 1h 2h +3h 4h 5h 72h 75h", "7 warn"},
		{"it recovers before a warning", HealthRules{}, "0h +23h", ""},
		{"it recovers after a warning", HealthRules{}, "0h 24h +25h +26h", "2 warn, 3 recovered"},
		{"it fails after a recovery", HealthRules{}, "0h 24h +25h 26h 49h 50h", "2 warn, 3 recovered, 6 warn"},

		{"with other times", HealthRules{DisableAfter: 10 * h, MinFailures: 2, WarnAfter: []time.Duration{h}},
			"0h 1h 10h", "2 warn, 3 disable"},
		{"with warnings not below the disabling", HealthRules{DisableAfter: 24 * h, MinFailures: 9}, "0h 24h 49h", ""},
		{"with one warning below it", HealthRules{DisableAfter: 48 * h, MinFailures: 9}, "0h 24h 49h", "2 warn"},
		{"without warnings", HealthRules{WarnAfter: []time.Duration{}}, "0h 24h +25h", ""},
		{"an attempt that ends before one that began later", HealthRules{}, "1h 0h", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var health delivery.WebhookHealth
			var got []string
			for i, text := range strings.Fields(test.attempts) {
				after, success := strings.CutPrefix(text, "+")
				d, err := time.ParseDuration(after)
				if err != nil {
					t.Fatal(err)
				}
				var v Verdict
				health, v = test.rules.After(health, success, vectorTime.Add(d))
				for name, set := range map[string]bool{"disable": v.Disable, "warn": v.Warn, "recovered": v.Recovered} {
					if set {
						got = append(got, fmt.Sprint(i+1, " ", name))
					}
				}
			}
			if text := strings.Join(got, ", "); text != test.want {
				t.Errorf("verdicts %q, want %q", text, test.want)
			}
		})
	}
}
