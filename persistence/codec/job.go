package codec

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Fields of a job's hash. The request never changes. Scripts read the state, so it is a text.
// The outcome is written once, with its position in front.
const (
	JobState   = "s" // "STATUS ATTEMPT"
	JobRequest = "q"
	JobStarted = "t" // ms
	JobOutcome = "o"
)

// Kinds of outcomes.
const (
	outcomeSignal = 1
	outcomeError  = 2
	outcomeResult = 3 // of jobs other than runs
	outcomeReason = 4 // of a run that made no signal
)

// workVersion is the first byte of a request other than a run. A process that does not know it
// leaves such jobs in the queue.
const workVersion = 2

// maxPhrases bounds a list that is read. No request may have as many.
const maxPhrases = 1000

// JobStateText returns the state as scripts and guards compare it.
func JobStateText(status signal.JobStatus, attempt int) string {
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

// AppendJobRequest appends what is known of a job when it is queued, except its id.
func AppendJobRequest(b []byte, j *signal.Job) []byte {
	r, version := &j.Request, byte(Version)
	if j.Kind != signal.JobRun {
		version = workVersion
	}
	b = appendID(append(b, version), "acc_", string(r.Account))
	b = appendID(b, "run_", string(j.Run))
	b = binary.AppendVarint(b, j.CreatedAt.UnixMilli())
	b = AppendText(b, string(r.Agent))
	b = AppendString(b, r.Asset)
	b = AppendText(b, r.Strategy)
	b = AppendText(b, string(r.Timeframe))
	b = AppendText(b, string(r.Risk))
	b = AppendString(b, r.Parameters.Region)
	b = AppendStrings(b, r.Parameters.Keywords)
	b = AppendStrings(b, r.Parameters.Features)
	b = AppendString(b, r.Parameters.Locale)
	if j.Kind == signal.JobRun {
		return b
	}
	b = AppendString(b, string(j.Kind))
	if a := j.Alert; a != nil {
		b = appendID(b, "itk_", string(a.Intake))
		return append(AppendString(b, a.RequestID), a.Body...)
	}
	b = AppendStrings(b, j.Assets)
	return binary.AppendVarint(binary.AppendVarint(b, MilliOf(j.From)), MilliOf(j.To))
}

// boundOf is the inverse of MilliOf.
func boundOf(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return TimeOfMilli(ms)
}

func decodeJobRequest(id signal.JobID, value []byte) (signal.Job, error) {
	work, version := len(value) > 0 && value[0] == workVersion, byte(Version)
	if work {
		version = workVersion
	}
	d := DecodeVersion(value, version)
	j := signal.Job{ID: id}
	r := &j.Request
	r.Account = signal.AccountID(d.ID("acc_"))
	j.Run = signal.RunID(d.ID("run_"))
	j.CreatedAt = TimeOfMilli(d.Varint())
	r.Agent = signal.AgentID(d.Text())
	r.Asset = string(d.TextBytes(d.Byte()))
	r.Strategy = d.Text()
	r.Timeframe = signal.Timeframe(d.Text())
	r.Risk = signal.RiskLevel(d.Text())
	r.Parameters.Region = string(d.TextBytes(d.Byte()))
	r.Parameters.Keywords = d.Strings()
	r.Parameters.Features = d.Strings()
	r.Parameters.Locale = string(d.TextBytes(d.Byte()))
	if work {
		switch j.Kind = signal.JobKind(d.TextBytes(d.Byte())); j.Kind {
		case signal.JobScan, signal.JobBacktest:
			j.Assets = d.Strings()
			j.From, j.To = boundOf(d.Varint()), boundOf(d.Varint())
		case signal.JobAlert:
			j.Alert = &signal.QueuedAlert{Intake: signal.IntakeID(d.ID("itk_")), RequestID: string(d.TextBytes(d.Byte()))}
			j.Alert.Body = slices.Clone(d.B)
		default:
			d.Fail(fmt.Errorf("job of kind %q is not known", j.Kind))
		}
	}
	if d.Err != nil {
		return signal.Job{}, fmt.Errorf("decode job %s: %w", id, d.Err)
	}
	return j, nil
}

// AppendJobOutcome appends how j ended. The time of the end is that of the position that the
// append script puts in front.
func AppendJobOutcome(b []byte, j *signal.Job) []byte {
	b = append(b, Version)
	b = binary.AppendVarint(b, j.ExpiresAt.UnixMilli())
	if e := j.Error; e != nil {
		b = append(b, outcomeError)
		b = AppendString(b, string(e.Code))
		b = AppendString(b, e.Message)
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
	if j.Signal == nil {
		return AppendString(append(b, outcomeReason), j.Reason)
	}
	b = append(b, outcomeSignal)
	record := AppendRecord(make([]byte, 0, 160), j.Signal, j.CompletedAt)
	b = binary.AppendUvarint(b, uint64(len(record)))
	b = append(b, record...)
	return append(b, j.Signal.Metadata...)
}

// decodeJobOutcome sets the outcome of j.
func decodeJobOutcome(j *signal.Job, value []byte) error {
	at, rest, err := CutStamp(value)
	if err != nil {
		return fmt.Errorf("decode outcome of job %s: %w", j.ID, err)
	}
	d := Decode(rest)
	j.CompletedAt = at.Time()
	j.ExpiresAt = TimeOfMilli(d.Varint())
	switch kind := d.Byte(); {
	case d.Err != nil:
	case kind == outcomeError:
		e := &signal.RunError{Code: signal.ErrorCode(d.TextBytes(d.Byte()))}
		e.Message = string(d.TextBytes(d.Byte()))
		e.Retryable = d.Byte() == 1
		e.RetryAfter = time.Duration(d.Varint()) * time.Millisecond
		j.Error = e
	case kind == outcomeSignal && j.Kind == signal.JobRun:
		record := d.Take(d.Uvarint())
		if d.Err != nil {
			break
		}
		s, err := DecodeRecord(at, record, d.B)
		if err != nil {
			return fmt.Errorf("decode outcome of job %s: %w", j.ID, err)
		}
		if s.Metadata == nil {
			s.Metadata = json.RawMessage("{}")
		}
		j.Signal = s
	case kind == outcomeReason && j.Kind == signal.JobRun:
		j.Reason = string(d.TextBytes(d.Byte()))
	case kind == outcomeResult && j.Kind != signal.JobRun:
		j.Result = append(json.RawMessage(nil), d.B...)
	default:
		d.Fail(fmt.Errorf("outcome of kind %d is not known", kind))
	}
	if d.Err != nil {
		return fmt.Errorf("decode outcome of job %s: %w", j.ID, d.Err)
	}
	return nil
}

// DecodeJob returns the job in the fields of a hash. Absent ones are empty.
func DecodeJob(id signal.JobID, state, started, request, outcome string) (signal.Job, error) {
	j, err := decodeJobRequest(id, []byte(request))
	if err != nil {
		return signal.Job{}, err
	}
	if j.Status, j.Attempt, err = parseJobState(state); err != nil {
		return signal.Job{}, err
	}
	if started != "" {
		ms, ok := ParseDigits([]byte(started))
		if !ok {
			return signal.Job{}, fmt.Errorf("decode job %s: start %q is not valid", id, started)
		}
		j.StartedAt = laterOf(TimeOfMilli(ms), j.CreatedAt)
	}
	if j.Status == signal.JobCompleted || j.Status == signal.JobFailed {
		if err := decodeJobOutcome(&j, []byte(outcome)); err != nil {
			return signal.Job{}, err
		}
		j.CompletedAt = laterOf(j.CompletedAt, laterOf(j.StartedAt, j.CreatedAt))
	}
	return j, nil
}

// laterOf returns the later of two times. The time of a job's creation is by its node's
// measure of the clock of Redis, which may be a little ahead; the others are by Redis.
func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
