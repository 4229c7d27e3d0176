package eventlog

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

var (
	ErrNotOpen  = redisclient.Refused("signal_closed", "the signal is closed")
	errChanged  = error(signal.Changed(0)) // callers get the sequence that is stored
	errExit     = redisclient.Refused(signal.CodeExitRequested, "the agent of the signal has asked for its exit")
	ErrNotOwner = redisclient.Refused(signal.CodeNotOwner, "another node owns the partition")
	// ErrAgentChanged refuses a change by an agent that was changed or removed since it was read.
	ErrAgentChanged = redisclient.Refused(signal.CodeAgentChanged, "the agent was changed meanwhile")
	// ErrAlertOvertaken refuses an alert if another one about the same was accepted since its marks were read.
	ErrAlertOvertaken = redisclient.Refused("alert_overtaken", "another alert about the asset was accepted meanwhile")
	errAlertQueued    = redisclient.Refused("alert_queued", "the alert was queued meanwhile")
	errRunEnded       = redisclient.Refused("run_ended", "the run has ended already")
)

// ErrClaimLost refuses the reply of a request whose Idempotency-Key another request has taken,
// because this process seemed to have ended.
var ErrClaimLost = &signal.Error{Kind: signal.KindConflict, Code: "idempotency_in_progress",
	Message: "another request with this Idempotency-Key has taken over: repeat the request", RetryAfter: time.Second}

// changeOperation returns what stores c in partition p.
func changeOperation(k redisclient.Keys, p int, c *signal.Change, now time.Time) *Operation {
	o := NewOperation(k)
	if c.Epoch != 0 {
		o.Fence(c.Epoch)
	}
	if a := c.Agent; a != nil {
		k := o.Key(k.AgentsKey(p, c.Account))
		o.Guard(GuardFieldIs, k, ErrAgentChanged, AgentRevision(a.ID), a.Revision)
	}
	described, creates := -1, false // the event that concerns c.Signal
	for i := range c.Events {
		if c.Signal != nil && concernsSignal(c.Events[i].Type) {
			described, creates = i, c.Events[i].Type == signal.SignalCreated
		}
	}
	if described >= 0 && !creates {
		o.Guard(GuardFieldExists, refOpen, ErrNotOpen, codec.OpenField(c.Signal.ID))
		if c.Epoch != 0 {
			// An owner that does not know how its last change ended may try it again.
			before := binary.AppendUvarint(nil, uint64(max(c.Signal.Sequence-1, 1)))
			o.Guard(guardSequence, refOpen, errChanged, string(before))
		}
		// A change that was made without knowledge of an exit would erase it, and may have passed it.
		o.Guard(guardExit, refOpen, errExit, string(codec.ExitBytes(c.Signal.ExitRequested)))
	}
	ended := ""
	if c.Ended != "" {
		if ended = endedMember(c); ended == "" {
			o.Invalid = errors.New("the end of a run needs an event with its agent")
		}
		// A run ends once: by its own process, or by the partition's owner in its place.
		o.Guard(GuardMember, refDue, errRunEnded, ended)
	}
	if c.Reply != nil && c.Reply.Body == nil && !creates {
		o.Invalid = errors.New("reply without a body needs a new signal")
	}
	for i := range c.Events {
		o.AddEvent(c, i)
		if i == described {
			o.addSignal(c.Events[i].Type, c.Signal, now)
			if creates { // at once, so that the stamp of what refers to the signal is its position
				o.addReferring(p, c)
			}
		}
	}
	if !creates {
		o.addReferring(p, c)
	}
	if c.Alert != nil {
		o.addAlert(p, c)
	}
	if d := c.Due; d != nil {
		o.Step(CmdZAdd, refDue, milli(d.At), DueMember(c.Account, d.Run, d.Agent))
	}
	if ended != "" {
		o.Step(CmdZRem, refDue, ended)
	}
	return o
}

// RequestExit records at which moment the agent of an open signal has ended it, for the owner of the partition.
// It changes nothing if the signal is closed or has such a moment.
func (l *Log) RequestExit(ctx context.Context, account signal.AccountID, id signal.SignalID) error {
	o, field := NewOperation(l.store.Keys), codec.OpenField(id)
	o.Guard(GuardFieldExists, refOpen, ErrNotOpen, field)
	o.Guard(guardExit, refOpen, errExit, "")
	o.exit(account, id)
	_, err := l.Apply(ctx, l.store.Partition(account), o)
	if code := signal.CodeOf(err); code == signal.CodeOf(ErrNotOpen) || code == signal.CodeExitRequested {
		return nil
	}
	return err
}

// exit records that an agent ends an open signal at the time of the operation.
func (o *Operation) exit(account signal.AccountID, id signal.SignalID) {
	o.Announce(account, signal.ExitRequested, string(id))
	o.Step(cmdExit, refOpen, codec.OpenField(id))
}

// addAlert carries out the alert of c, after its events.
func (o *Operation) addAlert(p int, c *signal.Change) {
	a, created := c.Alert, signal.SignalID("")
	if c.Signal != nil {
		created = c.Signal.ID
	}
	for _, t := range a.Topics {
		k := o.Key(o.AlertKey(p, c.Account, t.Name))
		o.Guard(guardKeyFree, k, ErrAlertOvertaken, t.Mark)
		o.Step(CmdSet, k, a.Mark(created), "PX", strconv.FormatInt(signal.AlertMemory.Milliseconds(), 10))
	}
	if a.Queued != nil {
		o.queueAlert(p, a.Queued)
	}
	if a.Job != nil {
		o.endAlert(p, a.Job)
	}
	for _, id := range a.Exits {
		o.exit(c.Account, id)
	}
	if a.Request != nil {
		k := o.Key(o.IntakeRequestsKey(p, c.Account, a.Intake))
		o.Step(cmdXAdd, k, IntakeRequest(a.Request, string(created))...)
		o.Step(CmdExpire, k, strconv.Itoa(int(IntakeRequestsKept/time.Second)))
	}
}

// queueAlert stores a job of an alert, which no list of jobs has, and puts it into the queue.
func (o *Operation) queueAlert(p int, j *signal.Job) {
	o.Step(CmdHSet, o.Key(o.JobKey(p, j.ID)), codec.JobState, codec.JobStateText(signal.JobQueued, 0),
		codec.JobRequest, codec.Text(codec.AppendJobRequest(nil, j)))
	o.Step(cmdXAdd, o.Key(o.JobQueueKey(p)), "*", "j", string(j.ID), "a", string(j.Request.Account))
}

// endAlert removes the job of an alert, and refuses that unless the attempt of j holds it.
func (o *Operation) endAlert(p int, j *signal.Job) {
	record, queue, entry := o.Key(o.JobKey(p, j.ID)), o.Key(o.JobQueueKey(p)), j.Entry.String()
	o.Guard(GuardFieldIs, record, errJobLost, codec.JobState, codec.JobStateText(signal.JobRunning, j.Attempt))
	o.Step(CmdHDel, record, codec.JobState, codec.JobStarted, codec.JobRequest)
	o.Step(cmdXAck, queue, JobGroup, entry)
	o.Step(cmdXDel, queue, entry)
}

// IntakeRequestsKept is how long the list of an intake's requests is kept after the last.
const IntakeRequestsKept = 30 * 24 * time.Hour

// IntakeRequest returns the arguments of XADD, behind the key, for a request of an intake. created is the signal that it has
// made, or empty.
func IntakeRequest(request []byte, created string) []string {
	return []string{"MAXLEN", strconv.Itoa(signal.MaxIntakeRequests), "*", "r", string(request), "s", created}
}

func concernsSignal(t signal.EventType) bool {
	return t == signal.SignalCreated || t == signal.SignalUpdated || t == signal.SignalClosed
}

// AddEvent appends event i of c to the event log.
func (o *Operation) AddEvent(c *signal.Change, i int) {
	e := c.Events[i]
	e.Account = c.Account
	if e.ID == "" {
		e.ID = signal.NewEventID()
	}
	if e.Listing == nil && c.Signal != nil && concernsSignal(e.Type) {
		l := c.Signal.Listing()
		e.Listing = &l
	}
	if e.Initial == nil && c.Signal != nil && concernsSignal(e.Type) {
		e.Initial = c.Signal.Initial
	}
	if e.Type == signal.SignalCreated && c.Signal != nil {
		e.Weather, e.Opening = c.Signal.Weather, c.Signal.Opening()
	}
	header := codec.AppendEvent(make([]byte, 0, 192), &e)
	o.Step(cmdEvent, refEvents, codec.Text(header), codec.Text(e.Data))
}

// addSignal stores what an event of type t changes of s.
func (o *Operation) addSignal(t signal.EventType, s *signal.Signal, now time.Time) {
	field, b := codec.OpenField(s.ID), make([]byte, 0, 160)
	switch t {
	case signal.SignalCreated:
		record := codec.AppendRecord(make([]byte, 0, 160), s, now)
		o.Step(cmdRecord, refSignals, codec.Text(record), codec.Text(codec.PackMetadata(s.Metadata)))
		o.Stamped(stampTwice, 1, CmdHSet, refOpen, field, codec.Text(codec.AppendOpen(b, s, now)))
	case signal.SignalUpdated:
		mode := stampKept
		if len(s.Updates) > 0 {
			mode = stampUpdate
		}
		if len(s.Updates) > 1 {
			o.Invalid = errors.New("a change makes at most one update")
		}
		o.Stamped(mode, 1, CmdHSet, refOpen, field, codec.Text(codec.AppendOpen(b, s, now)))
	case signal.SignalClosed:
		metadata := codec.Text(codec.PackMetadata(s.Metadata))
		o.Stamped(stampClose, 0, cmdRecord, refSignals, codec.Text(codec.AppendClosed(b, s)), metadata)
		o.Step(CmdHDel, refOpen, field)
	}
}

// addReferring stores the reply and the job of c, which may refer to its signal.
func (o *Operation) addReferring(p int, c *signal.Change) {
	if c.Reply != nil {
		o.AddReply(p, c.Account, c.Reply)
	}
	if c.Reference != nil {
		o.AddReply(p, c.Account, c.Reference)
	}
	if c.Job != nil {
		o.addJob(p, c.Job)
	}
}

// AddReply stores the answer to a request. The operation is refused if another request has taken the
// key since, or has its reply stored.
func (o *Operation) AddReply(p int, account signal.AccountID, r *signal.Reply) {
	k := o.Key(o.ReplyKey(p, account, codec.ReplyDigest(&r.ReplyKey)))
	o.Guard(guardKeyFree, k, ErrClaimLost, codec.Text(codec.AppendReplyLock(nil, &r.ReplyKey)))
	retention := strconv.FormatInt(cmp.Or(r.Keep, ReplyRetention).Milliseconds(), 10)
	o.Stamped(StampID, 0, CmdSet, k, codec.Text(codec.AppendReply(nil, r)), "PX", retention)
}

func milli(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

const (
	// ReplyRetention is how long a reply is kept.
	ReplyRetention = 24 * time.Hour
	// indexMargin is how long an account's indexes outlive its last ended job.
	indexMargin = time.Hour
	// JobGroup is the consumer group of all job queues.
	JobGroup = "jobs"
)

// errJobLost refuses an outcome whose job has gone to another worker, has ended or was
// erased.
var errJobLost = redisclient.Refused("job_lost", "another worker holds the job")

// addJob stores the outcome of j and takes it out of the queue. It is refused unless the
// attempt of j holds the job.
func (o *Operation) addJob(p int, j *signal.Job) {
	account, id := j.Request.Account, string(j.ID)
	record := o.Key(o.JobKey(p, j.ID))
	o.Guard(GuardFieldIs, record, errJobLost, codec.JobState, codec.JobStateText(signal.JobRunning, j.Attempt))
	if j.Status == signal.JobRunning {
		return // the guard is all
	}
	o.Stamped(StampID, 3, CmdHSet, record, codec.JobState, codec.JobStateText(j.Status, j.Attempt),
		codec.JobOutcome, string(codec.AppendJobOutcome(nil, j)))
	created, expires, forget := milli(j.CreatedAt), milli(j.ExpiresAt), milli(j.ExpiresAt.Add(indexMargin))
	all := o.Key(o.JobsOfKey(p, account))
	with := o.Key(o.JobsWithKey(p, account, j.Status))
	ended := o.Key(o.JobsEndedKey(p, account))
	o.Step(cmdPExpireAt, record, expires)
	o.Step(CmdZRem, o.Key(o.JobsWithKey(p, account, signal.JobRunning)), id)
	o.Step(CmdZAdd, all, created, id)
	o.Step(CmdZAdd, with, created, id)
	o.Step(CmdZAdd, ended, expires, id)
	o.Step(cmdPExpireAt, all, forget)
	o.Step(cmdPExpireAt, with, forget)
	o.Step(cmdPExpireAt, ended, forget)
	if !j.Entry.IsZero() {
		queue, entry := o.Key(o.JobQueueKey(p)), j.Entry.String()
		o.Step(cmdXAck, queue, JobGroup, entry)
		o.Step(cmdXDel, queue, entry)
	}
}

// DueMember returns the member of a run among those that are due.
func DueMember(account signal.AccountID, run signal.RunID, agent signal.AgentID) string {
	return string(account) + " " + string(run) + " " + string(agent)
}

// endedMember returns the member to remove when c.Ended has ended, by an event of the run; "" without one.
func endedMember(c *signal.Change) string {
	for i := range c.Events {
		if e := &c.Events[i]; e.Run == c.Ended && e.Agent != "" {
			return DueMember(c.Account, c.Ended, e.Agent)
		}
	}
	return ""
}

// AgentRevision returns the field with the revision of an agent in the hash of its account's agents.
func AgentRevision(id signal.AgentID) string { return "#" + string(id) }

// Announce appends an internal event to the event log.
func (o *Operation) Announce(a signal.AccountID, t signal.EventType, subject string) {
	e := signal.Event{ID: signal.NewEventID(), Account: a, Type: t, Subject: subject}
	o.Step(cmdEvent, refEvents, codec.Text(codec.AppendEvent(make([]byte, 0, 96), &e)), "")
}

// Fence refuses the operation under another epoch.
func (o *Operation) Fence(epoch int64) {
	o.Guard(guardKeyIs, refEpoch, ErrNotOwner, strconv.FormatInt(epoch, 10))
}
