package agent

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Metrics counts runs and jobs. The label agent has the values of signal.AgentID.Label; so has the label strategy for agents
// of accounts. A nil *Metrics counts nothing.
type Metrics struct {
	runs     *prometheus.CounterVec
	errors   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	created  *prometheus.CounterVec
	waiting  *prometheus.GaugeVec
	wait     prometheus.Histogram

	failed int // counts of queued jobs since the last one that succeeded; of jobsWaiting alone
}

// The values of the label "result". A run is lost if its outcome could not be recorded, or belongs to another process. One of
// an account's agent is refused if it was not valid or its agent could not be asked.
const (
	resultCompleted = "completed"
	resultError     = "error"
	resultLost      = "lost"
	resultRefused   = "refused"
)

// NewMetrics registers the metrics of this package.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_runs_total",
			Help: "Runs that ended, by result: completed, error, or lost if the outcome could not be recorded. " +
				"Agents of accounts count as own; their runs are refused if they were not valid or the agent could not be asked.",
		}, []string{"agent", "strategy", "result"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_run_errors_total", Help: "Runs that failed, by error code.",
		}, []string{"agent", "error_code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "agentsignal_run_duration_seconds",
			Help:    "Time from the start of a run until its outcome was recorded.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"agent"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "agentsignal_runs_in_flight", Help: "Runs under way in this process.",
		}, []string{"agent"}),
		created: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentsignal_signals_created_total", Help: "Signals that runs in this process created.",
		}, []string{"agent", "direction"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "agentsignal_jobs_waiting", Help: "Queued jobs of the whole installation. The same in every process.",
		}, nil),
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "agentsignal_job_wait_seconds", Help: "Time from the creation of a job until its first run started.",
			Buckets: []float64{.01, .1, .5, 1, 5, 15, 60, 300},
		}),
	}
	r.MustRegister(m.runs, m.errors, m.duration, m.inFlight, m.created, m.waiting, m.wait)
	m.waiting.WithLabelValues()
	m.runs.WithLabelValues(signal.OwnAgents, signal.OwnAgents, resultRefused)
	for _, agent := range append(signal.Agents(), signal.Agent{ID: signal.OwnAgents, Strategies: []string{signal.OwnAgents}}) {
		id := agent.ID.Label()
		for _, strategy := range agent.Strategies {
			for _, result := range []string{resultCompleted, resultError, resultLost} {
				m.runs.WithLabelValues(id, strategy, result)
			}
		}
		for _, code := range signal.ErrorCodes {
			m.errors.WithLabelValues(id, string(code))
		}
		for _, direction := range []signal.Direction{signal.Long, signal.Short} {
			m.created.WithLabelValues(id, string(direction))
		}
		m.duration.WithLabelValues(id)
		m.inFlight.WithLabelValues(id)
	}
	return m
}

func (m *Metrics) runStarted(agent signal.AgentID) {
	if m != nil {
		m.inFlight.WithLabelValues(agent.Label()).Inc()
	}
}

// runEnded counts the end of r with s or err.
func (m *Metrics) runEnded(r *run, s *signal.Signal, err error, took time.Duration) {
	if m == nil {
		return
	}
	agent, strategy, result := r.request.Agent.Label(), r.request.Strategy, resultCompleted
	if !r.request.Agent.BuiltIn() {
		strategy = signal.OwnAgents
	}
	m.inFlight.WithLabelValues(agent).Dec()
	if r.refused {
		m.runs.WithLabelValues(agent, strategy, resultRefused).Inc()
		return
	}
	if failed, ok := errors.AsType[*signal.RunError](err); ok {
		result = resultError
		m.errors.WithLabelValues(agent, string(failed.Code)).Inc()
	} else if err != nil && signal.CodeOf(err) != CodeNoSignal {
		result = resultLost
	}
	m.duration.WithLabelValues(agent).Observe(took.Seconds())
	m.runs.WithLabelValues(agent, strategy, result).Inc()
	if s != nil {
		m.created.WithLabelValues(agent, string(s.Direction)).Inc()
	}
}

func (m *Metrics) jobStarted(waited time.Duration) {
	if m != nil {
		m.wait.Observe(max(0, waited).Seconds())
	}
}

// maxFailedCounts is after how many failed counts of queued jobs their gauge has no value any more. An alert takes the
// maximum over all processes, in which the last value of one that has lost Redis would stay.
const maxFailedCounts = 4

// jobsWaiting sets the gauge of queued jobs, or notes that they could not be counted. It is not called concurrently.
func (m *Metrics) jobsWaiting(n int64, err error) {
	if err == nil {
		m.failed = 0
		m.waiting.WithLabelValues().Set(float64(n))
	} else if m.failed++; m.failed == maxFailedCounts {
		m.waiting.Reset()
	}
}
