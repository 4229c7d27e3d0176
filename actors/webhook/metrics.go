package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/sender"
)

// Metrics counts attempts, deliveries, webhooks and mails.
type Metrics struct {
	attempts   *prometheus.CounterVec
	byClass    map[string]prometheus.Counter
	duration   *prometheus.HistogramVec
	successes  prometheus.Observer
	failures   prometheus.Observer
	deliveries *prometheus.CounterVec
	byStatus   map[delivery.Status]prometheus.Counter
	drops      prometheus.Counter
	disables   *prometheus.CounterVec
	emails     *prometheus.CounterVec

	pending  *prometheus.GaugeVec
	lag      *prometheus.GaugeVec
	webhooks *prometheus.GaugeVec
	held     prometheus.Gauge
}

// Outcomes of a mail, the values of the label "result".
const (
	mailSent     = "sent"
	mailDeferred = "deferred" // it will be retried
	mailGivenUp  = "given_up" // after the last try
	mailUnsent   = "not_sent" // no server is configured
)

var mailResults = []string{mailSent, mailDeferred, mailGivenUp, mailUnsent}

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_webhook_attempts_total", Help: "Requests to endpoints, by how they ended.",
		}, []string{"result"}),
		byClass: map[string]prometheus.Counter{},
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "agentsignal_webhook_attempt_duration_seconds", Help: "Time of a request to an endpoint.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"result"}),
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_webhook_deliveries_total",
			Help: "Deliveries that this process made, as pending, or that ended here.",
		}, []string{"status"}),
		byStatus: map[delivery.Status]prometheus.Counter{},
		drops: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "agentsignal_webhook_deliveries_dropped_total",
			Help: "Deliveries that were not stored, or not tried again, because too many of the account are pending.",
		}),
		disables: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_webhook_disabled_total",
			Help: "Webhooks that were disabled, by who did it: failing (the service) or manual.",
		}, []string{"reason"}),
		emails: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_emails_total",
			Help: "Tries to send an email: sent, deferred, given_up after the last one, or not_sent without settings.",
		}, []string{"result"}),
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "agentsignal_webhook_pending_deliveries",
			Help: "Pending deliveries in Redis, including those whose first attempt takes more than two seconds. " +
				"The same in every process.",
		}, nil),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "agentsignal_webhook_due_lag_seconds",
			Help: "For how long the oldest pending delivery has been due. The same in every process.",
		}, nil),
		webhooks: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "agentsignal_webhooks", Help: "Registered webhooks. The same in every process.",
		}, []string{"status"}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "agentsignal_webhooks_held",
			Help: "Webhooks of this process that get no request, because they have answered 429 or 503 with a wait.",
		}),
	}
	r.MustRegister(m.attempts, m.duration, m.deliveries, m.drops, m.disables, m.emails, m.pending, m.lag, m.webhooks,
		m.held)
	for _, class := range sender.Classes {
		m.byClass[class] = m.attempts.WithLabelValues(class)
	}
	m.successes, m.failures = m.duration.WithLabelValues("success"), m.duration.WithLabelValues("failure")
	for _, s := range delivery.Statuses {
		m.byStatus[s] = m.deliveries.WithLabelValues(string(s))
	}
	for _, reason := range delivery.DisabledReasons {
		m.disables.WithLabelValues(string(reason))
	}
	for _, result := range mailResults {
		m.emails.WithLabelValues(result)
	}
	for _, s := range delivery.WebhookStatuses {
		m.webhooks.WithLabelValues(string(s))
	}
	m.pending.WithLabelValues()
	m.lag.WithLabelValues()
	return m
}

// Observe sets the gauges of the data in Redis at the given time. It is called every 15 s, not at a scrape.
func (m *Metrics) Observe(s delivery.WebhookStats, now time.Time) {
	m.pending.WithLabelValues().Set(float64(s.Pending))
	m.webhooks.WithLabelValues(string(delivery.WebhookEnabled)).Set(float64(s.Enabled))
	m.webhooks.WithLabelValues(string(delivery.WebhookDisabled)).Set(float64(s.Disabled))
	var lag time.Duration
	if !s.OldestDue.IsZero() {
		lag = max(0, now.Sub(s.OldestDue))
	}
	m.lag.WithLabelValues().Set(lag.Seconds())
}

// Reset removes the values that Observe has set.
func (m *Metrics) Reset() {
	m.pending.Reset()
	m.lag.Reset()
	m.webhooks.Reset()
}

// attempted counts an attempt.
func (m *Metrics) attempted(r *sender.Result) {
	if c, ok := m.byClass[r.Class]; ok {
		c.Inc()
	}
	if r.Error == "" {
		m.successes.Observe(r.Duration.Seconds())
	} else {
		m.failures.Observe(r.Duration.Seconds())
	}
}

func (m *Metrics) disabled(reason delivery.DisabledReason) {
	m.disables.WithLabelValues(string(reason)).Inc()
}

func (m *Metrics) emailed(result string) { m.emails.WithLabelValues(result).Inc() }
