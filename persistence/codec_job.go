package persistence

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// A job is a hash. The request never changes; the state is a text of its own
// because scripts read it; the outcome is written once, with its position in front.
const (
	jobState   = "s" // "STATUS ATTEMPT"
	jobRequest = "q"
	jobStarted = "t" // ms
	jobOutcome = "o"
)

// Kinds of outcomes.
const (
	outcomeSignal = 1
	outcomeError  = 2
	outcomeResult = 3 // of jobs that are no runs
)

// workVersion is the first byte of a request that is no run. A process that does not
// know it leaves such jobs in the queue, to one that does.
const workVersion = 2

// maxPhrases bounds what is read of a list: more than any request may have.
const maxPhrases = 1000

// jobStateText returns the state as scripts and guards compare it.
func jobStateText(status signal.JobStatus, attempt int) string {
	return string(status) + " " + strconv.Itoa(attempt)
}

func parseJobState(text string) (signal.JobStatus, int, error) {
	status, number, _ := strings.Cut(text, " ")
	attempt, err := strconv.ParseUint(number, 10, 31)
	switch s := signal.JobStatus(status); s {
	case signal.JobQueued, signal.JobRunning, signal.JobCompleted, signal.JobFailed:
		if err == nil {
			return s, int(attempt), nil
		}
	}
	return "", 0, fmt.Errorf("decode job: state %q is not known", text)
}

// appendJobRequest adds what is known of a job when it is queued, but for its id.
func appendJobRequest(b []byte, j *signal.Job) []byte {
	r := &j.Request
	if j.Kind == signal.JobRun {
		b = append(b, codecVersion)
	} else {
		b = append(b, workVersion)
	}
	b = appendID(b, "acc_", string(r.Account))
	b = appendID(b, "run_", string(j.Run))
	b = binary.AppendVarint(b, j.CreatedAt.UnixMilli())
	b = appendText(b, string(r.Agent))
	b = appendString(b, r.Asset)
	b = appendText(b, r.Strategy)
	b = appendText(b, string(r.Timeframe))
	b = appendText(b, string(r.Risk))
	b = appendString(b, r.Parameters.Region)
	b = appendStrings(b, r.Parameters.Keywords)
	b = appendStrings(b, r.Parameters.Features)
	b = appendString(b, r.Parameters.Locale)
	if j.Kind == signal.JobRun {
		return b
	}
	b = appendString(b, string(j.Kind))
	b = appendStrings(b, j.Assets)
	return binary.AppendVarint(binary.AppendVarint(b, milliOf(j.From)), milliOf(j.To))
}

// boundOf is the inverse of milliOf.
func boundOf(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return timeOfMilli(ms)
}

func decodeJobRequest(id signal.JobID, value []byte) (signal.Job, error) {
	work := len(value) > 0 && value[0] == workVersion
	var d decoder
	if work {
		d = decoder{b: value[1:]}
	} else {
		d = decode(value)
	}
	j := signal.Job{ID: id}
	r := &j.Request
	r.Account = signal.AccountID(d.id("acc_"))
	j.Run = signal.RunID(d.id("run_"))
	j.CreatedAt = timeOfMilli(d.varint())
	r.Agent = signal.AgentID(d.text())
	r.Asset = string(d.textBytes(d.byte()))
	r.Strategy = d.text()
	r.Timeframe = signal.Timeframe(d.text())
	r.Risk = signal.RiskLevel(d.text())
	r.Parameters.Region = string(d.textBytes(d.byte()))
	r.Parameters.Keywords = d.strings()
	r.Parameters.Features = d.strings()
	r.Parameters.Locale = string(d.textBytes(d.byte()))
	if work {
		j.Kind = signal.JobKind(d.textBytes(d.byte()))
		j.Assets = d.strings()
		j.From, j.To = boundOf(d.varint()), boundOf(d.varint())
		if j.Kind != signal.JobScan && j.Kind != signal.JobBacktest {
			d.fail(fmt.Errorf("job of kind %q is not known", j.Kind))
		}
	}
	if d.err != nil {
		return signal.Job{}, fmt.Errorf("decode job %s: %w", id, d.err)
	}
	return j, nil
}

// appendJobOutcome adds how j ended. The time of the end is that of the position
// which the append script puts in front.
func appendJobOutcome(b []byte, j *signal.Job) []byte {
	b = append(b, codecVersion)
	b = binary.AppendVarint(b, j.ExpiresAt.UnixMilli())
	if e := j.Error; e != nil {
		b = append(b, outcomeError)
		b = appendString(b, string(e.Code))
		b = appendString(b, e.Message)
		retryable := byte(0)
		if e.Retryable {
			retryable = 1
		}
		b = append(b, retryable)
		return binary.AppendVarint(b, e.RetryAfter.Milliseconds())
	}
	if j.Kind != signal.JobRun {
		return append(append(b, outcomeResult), j.Result...)
	}
	b = append(b, outcomeSignal)
	record := appendRecord(make([]byte, 0, 160), j.Signal, j.CompletedAt)
	b = binary.AppendUvarint(b, uint64(len(record)))
	b = append(b, record...)
	return append(b, j.Signal.Metadata...)
}

// decodeJobOutcome adds the outcome to j.
func decodeJobOutcome(j *signal.Job, value []byte) error {
	at, rest, err := cutStamp(value)
	if err != nil {
		return fmt.Errorf("decode outcome of job %s: %w", j.ID, err)
	}
	d := decode(rest)
	j.CompletedAt = at.Time()
	j.ExpiresAt = timeOfMilli(d.varint())
	switch kind := d.byte(); {
	case d.err != nil:
	case kind == outcomeError:
		e := &signal.RunError{Code: signal.ErrorCode(d.textBytes(d.byte()))}
		e.Message = string(d.textBytes(d.byte()))
		e.Retryable = d.byte() == 1
		e.RetryAfter = time.Duration(d.varint()) * time.Millisecond
		j.Error = e
	case kind == outcomeSignal && j.Kind == signal.JobRun:
		n := d.uvarint()
		if n > uint64(len(d.b)) {
			d.fail(errShort)
			break
		}
		record := d.take(int(n))
		if d.err != nil {
			break
		}
		s, err := decodeRecord(at, record, d.b)
		if err != nil {
			return fmt.Errorf("decode outcome of job %s: %w", j.ID, err)
		}
		if s.Metadata == nil {
			s.Metadata = json.RawMessage("{}")
		}
		j.Signal = s
	case kind == outcomeResult && j.Kind != signal.JobRun:
		j.Result = append(json.RawMessage(nil), d.b...)
	default:
		d.fail(fmt.Errorf("outcome of kind %d is not known", kind))
	}
	if d.err != nil {
		return fmt.Errorf("decode outcome of job %s: %w", j.ID, d.err)
	}
	return nil
}

// decodeJob returns a job as the fields of its hash say; absent ones are empty.
func decodeJob(id signal.JobID, state, started, request, outcome string) (signal.Job, error) {
	j, err := decodeJobRequest(id, []byte(request))
	if err != nil {
		return signal.Job{}, err
	}
	if j.Status, j.Attempt, err = parseJobState(state); err != nil {
		return signal.Job{}, err
	}
	if started != "" {
		ms, ok := parseDigits([]byte(started))
		if !ok {
			return signal.Job{}, fmt.Errorf("decode job %s: start %q is no time", id, started)
		}
		j.StartedAt = laterOf(timeOfMilli(ms), j.CreatedAt)
	}
	if j.Status == signal.JobCompleted || j.Status == signal.JobFailed {
		if err := decodeJobOutcome(&j, []byte(outcome)); err != nil {
			return signal.Job{}, err
		}
		j.CompletedAt = laterOf(j.CompletedAt, laterOf(j.StartedAt, j.CreatedAt))
	}
	return j, nil
}

// laterOf returns the later of two times. A job is created by its node's measure of
// the time of Redis, which may be a little ahead; started and completed by Redis.
func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
