package webhook

import (
	"cmp"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// Defaults of HealthRules.
const (
	DefaultDisableAfter = 72 * time.Hour
	DefaultMinFailures  = 5
)

// DefaultWarnAfter are the warnings of HealthRules.
var DefaultWarnAfter = []time.Duration{24 * time.Hour, 48 * time.Hour}

// HealthRules decide when the owner of a failing webhook is warned and when it is disabled.
type HealthRules struct {
	// DisableAfter is how long a webhook fails before it is disabled, from the first
	// failed attempt since a success. 0: DefaultDisableAfter.
	DisableAfter time.Duration
	// MinFailures is how many attempts have failed by then at least. 0:
	// DefaultLeastFailures.
	MinFailures int
	// WarnAfter is when its owner is warned, in rising order; times not below
	// DisableAfter do not count. Nil: DefaultWarnAfter; empty: no warnings.
	WarnAfter []time.Duration
}

// Verdict is what follows from an attempt for its webhook. At most one of the
// fields is set.
type Verdict struct {
	Disable   bool // it has failed for too long; again at each failure from then on
	Warn      bool // its owner is to be warned
	Recovered bool // it has succeeded after a warning
}

// After returns the health after an attempt that ended at the given time. Every
// attempt counts, tests and those made by hand, too. For a webhook that is disabled
// the caller ignores a verdict to disable it.
func (r HealthRules) After(h delivery.WebhookHealth, success bool, at time.Time) (delivery.WebhookHealth, Verdict) {
	if success {
		return delivery.WebhookHealth{}, Verdict{Recovered: h.Warned > 0}
	}
	if h.FailingSince.IsZero() {
		h = delivery.WebhookHealth{FailingSince: at}
	}
	h.Failures++
	failing := at.Sub(h.FailingSince)
	disableAfter := cmp.Or(r.DisableAfter, DefaultDisableAfter)
	if failing >= disableAfter && h.Failures >= cmp.Or(r.MinFailures, DefaultMinFailures) {
		return h, Verdict{Disable: true}
	}
	warnAfter := r.WarnAfter
	if warnAfter == nil {
		warnAfter = DefaultWarnAfter
	}
	due := 0
	for _, w := range warnAfter {
		if w < disableAfter && failing >= w {
			due++
		}
	}
	if due <= h.Warned {
		return h, Verdict{}
	}
	h.Warned = due
	return h, Verdict{Warn: true}
}
