package persistence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// What came of the rounds of a schedule stands beside its record, so that a round never
// changes the revision that changes of the record compare. The counts are raised where
// they are: rounds need not know what was counted before.

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

// RecordRound stores what came of a round of s. KindConflict, "not_owner": under another
// epoch. KindNotFound: the schedule was removed meanwhile.
func (h *Schedules) RecordRound(ctx context.Context, p int, epoch int64, s signal.Schedule, r signal.Round) error {
	o := newOperation()
	o.fence(epoch)
	o.guard(guardFieldExists, o.key(schedulesKey(p, s.Account)), errNoSchedule, string(s.ID))
	k := o.key(scheduleRoundsKey(p, s.Account))
	o.step(cmdHSet, k, roundField(s.ID, roundAt), milliText(r.At))
	if r.Error != nil {
		o.step(cmdHSet, k, roundField(s.ID, roundError), text(appendScheduleError(nil, r.Error)))
	}
	switch {
	case r.Failures > 0:
		o.step(cmdHIncrBy, k, roundField(s.ID, roundFailures), strconv.Itoa(r.Failures))
	case r.Runs > 0:
		o.step(cmdHDel, k, roundField(s.ID, roundFailures))
	}
	if r.Skipped {
		o.step(cmdHIncrBy, k, roundField(s.ID, roundSkipped), "1")
	}
	_, err := h.log.apply(ctx, p, o)
	return err
}

// readRounds adds to s what came of its rounds: value returns that of a field, or "" where
// there is none. An error that cannot be read is logged and left out.
func (h *Schedules) readRounds(s *signal.Schedule, value func(name string) string) {
	number := func(name string) int {
		n, _ := strconv.ParseInt(value(name), 10, 64)
		return int(max(n, 0))
	}
	if at := number(roundAt); at > 0 {
		s.LastRunAt = timeOfMilli(int64(at))
	}
	s.Failures, s.Skipped = number(roundFailures), number(roundSkipped)
	if v := value(roundError); v != "" {
		e, err := decodeScheduleError([]byte(v))
		if err != nil {
			h.store.log.Error("the last error of a schedule is not readable", "component", "persistence",
				"schedule", string(s.ID), "err", err)
			return
		}
		s.LastError = &e
	}
}

// appendScheduleError adds the record of an error.
func appendScheduleError(b []byte, e *signal.ScheduleError) []byte {
	b = binary.AppendUvarint(append(b, scheduleErrorVersion), uint64(milliOf(e.At)))
	return appendString(appendString(b, e.Code), e.Message)
}

// decodeScheduleError is the inverse of appendScheduleError.
func decodeScheduleError(value []byte) (signal.ScheduleError, error) {
	d := newDecoder(value)
	if version := d.byte(); d.err == nil && version != scheduleErrorVersion {
		d.fail(fmt.Errorf("version %d is not known: this process reads version %d", version, scheduleErrorVersion))
	}
	e := signal.ScheduleError{At: d.time()}
	e.Code, e.Message = string(d.textBytes(d.byte())), string(d.textBytes(d.byte()))
	if d.err == nil && e.Code == "" {
		d.fail(errors.New("the error has no code"))
	}
	if d.err != nil {
		return signal.ScheduleError{}, d.err
	}
	return e, nil
}
