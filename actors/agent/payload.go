package agent

import (
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// The functions of this file write the data member of events by hand, because every run
// makes two or three of them: reflection would cost more than the strategy.

// appendStarted adds the payload of agent.started.
func appendStarted(b []byte, r *run) []byte {
	b = appendRun(b, r)
	b = append(b, `,"timeframe":"`...)
	b = append(b, r.request.Timeframe...)
	b = append(b, `","risk_level":"`...)
	b = append(b, r.request.Risk...)
	b = append(b, `","started_at":`...)
	b = signal.AppendTime(b, r.started)
	return append(b, '}')
}

// appendCompleted adds the payload of agent.completed. id is empty for a run that made no signal.
func appendCompleted(b []byte, r *run, id signal.SignalID, now time.Time) []byte {
	b = appendRun(b, r)
	if id == "" {
		b = append(b, `,"signal_id":null`...)
	} else {
		b = append(b, `,"signal_id":"`...)
		b = append(b, id...)
		b = append(b, '"')
	}
	b = append(b, `,"duration_ms":`...)
	b = strconv.AppendInt(b, max(0, now.Sub(r.started).Milliseconds()), 10)
	b = append(b, `,"completed_at":`...)
	b = signal.AppendTime(b, now)
	return append(b, '}')
}

// appendRun adds the members that agent.started and agent.completed share,
// without the closing brace.
func appendRun(b []byte, r *run) []byte {
	b = append(b, `{"agent_id":"`...)
	b = append(b, r.request.Agent...)
	b = append(b, `","run_id":"`...)
	b = append(b, r.id...)
	if r.job == nil {
		b = append(b, `","job_id":null,"asset":`...)
	} else {
		b = append(b, `","job_id":"`...)
		b = append(b, r.job.ID...)
		b = append(b, `","asset":`...)
	}
	b = signal.AppendText(b, r.request.Asset)
	b = append(b, `,"strategy":"`...)
	b = append(b, r.request.Strategy...)
	return append(b, '"')
}

// appendCreated adds the payload of signal.created.
func appendCreated(b []byte, s *signal.Signal) []byte {
	b = signal.AppendMembers(append(b, '{'), s)
	b = append(b, `,"metadata":`...)
	b = append(b, s.Metadata...)
	return append(b, '}')
}
