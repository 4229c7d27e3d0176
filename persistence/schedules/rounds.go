package schedules

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
)

// The results of a schedule's rounds are stored beside its record, so that a round never changes
// the revision of the record. Redis increments the counts, so a round need not read them.

// roundFields are the fields of a schedule in the hash of its account's rounds.
var roundFields = []string{roundAt, roundError, roundFailures, roundSkipped}

const (
	roundAt       = "at"       // milliseconds: when the last round began
	roundError    = "error"    // the last error, see appendScheduleError
	roundFailures = "failures" // a number
	roundSkipped  = "skipped"  // a number
)

// scheduleErrorVersion is the first byte of a stored error.
const scheduleErrorVersion = 1

func roundField(id signal.ScheduleID, name string) string { return string(id) + " " + name }

// roundFieldsOf returns all fields of a schedule, in the order of roundFields.
func roundFieldsOf(id signal.ScheduleID) []string {
	fields := make([]string, len(roundFields))
	for i, name := range roundFields {
		fields[i] = roundField(id, name)
	}
	return fields
}

// RecordRound stores the result of a round of s. KindConflict, "not_owner": another epoch holds
// the partition. KindNotFound: the schedule was removed.
func (h *Store) RecordRound(ctx context.Context, p int, epoch int64, s signal.Schedule, r signal.Round) error {
	o := eventlog.NewOperation(h.store.Keys)
	o.Fence(epoch)
	o.Guard(eventlog.GuardFieldExists, o.Key(h.store.SchedulesKey(p, s.Account)), errNoSchedule, string(s.ID))
	k := o.Key(h.store.ScheduleRoundsKey(p, s.Account))
	o.Step(eventlog.CmdHSet, k, roundField(s.ID, roundAt), codec.MilliText(r.At))
	if r.Error != nil {
		o.Step(eventlog.CmdHSet, k, roundField(s.ID, roundError), codec.Text(appendScheduleError(nil, r.Error)))
	}
	switch {
	case r.Runs > r.Failures: // a run succeeded
		o.Step(eventlog.CmdHSet, k, roundField(s.ID, roundFailures), strconv.Itoa(r.Failures))
	case r.Failures > 0:
		o.Step(eventlog.CmdHIncrBy, k, roundField(s.ID, roundFailures), strconv.Itoa(r.Failures))
	}
	if r.Skipped {
		o.Step(eventlog.CmdHIncrBy, k, roundField(s.ID, roundSkipped), "1")
	}
	_, err := h.log.Apply(ctx, p, o)
	return err
}

// readRounds adds the results of its rounds to s. value returns the value of a field, or "". An
// unreadable error is logged and left out.
func (h *Store) readRounds(s *signal.Schedule, value func(name string) string) {
	number := func(name string) int {
		n, _ := strconv.ParseInt(value(name), 10, 64)
		return int(max(n, 0))
	}
	if at := number(roundAt); at > 0 {
		s.LastRunAt = codec.TimeOfMilli(int64(at))
	}
	s.Failures, s.Skipped = number(roundFailures), number(roundSkipped)
	if v := value(roundError); v != "" {
		e, err := decodeScheduleError([]byte(v))
		if err != nil {
			h.store.Log.Error("the last error of a schedule is not readable", "component", "persistence",
				"schedule", string(s.ID), "err", err)
			return
		}
		s.LastError = &e
	}
}

// appendScheduleError appends the record of an error.
func appendScheduleError(b []byte, e *signal.ScheduleError) []byte {
	b = binary.AppendUvarint(append(b, scheduleErrorVersion), uint64(codec.MilliOf(e.At)))
	return codec.AppendString(codec.AppendString(b, e.Code), e.Message)
}

// decodeScheduleError is the inverse of appendScheduleError.
func decodeScheduleError(value []byte) (signal.ScheduleError, error) {
	d := codec.NewDecoder(value)
	if version := d.Byte(); d.Err == nil && version != scheduleErrorVersion {
		d.Fail(fmt.Errorf("version %d is not known: this process reads version %d", version, scheduleErrorVersion))
	}
	e := signal.ScheduleError{At: d.Time()}
	e.Code, e.Message = string(d.TextBytes(d.Byte())), string(d.TextBytes(d.Byte()))
	if d.Err == nil && e.Code == "" {
		d.Fail(errors.New("the error has no code"))
	}
	if d.Err != nil {
		return signal.ScheduleError{}, d.Err
	}
	return e, nil
}
