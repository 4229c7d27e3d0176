// Package schedules keeps the schedules of accounts, when each is due, and the results of its
// rounds. Writes of a partition's owner name its epoch.
package schedules

import (
	"context"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

//go:embed scripts
var scripts embed.FS

var (
	eraseScript = redisclient.Script(scripts, "erase")
	undueScript = redisclient.Script(scripts, "undue")
)

// A schedule is a record, which its account changes, and a member of the set of due schedules,
// which the owner of the partition moves. So a round never changes the revision of the record.

// scheduleVersion is the first byte of the record of a schedule.
const scheduleVersion = 1

var (
	errTooManySchedules = redisclient.Refused("limit_reached", "the account has as many schedules as it may have")
	errScheduleChanged  = redisclient.Refused("schedule_changed", "the schedule was changed meanwhile")
	errNoSchedule       = error(signal.NotFound("schedule"))
)

// Store keeps schedules. Writes that only the owner of a partition may make name its epoch and
// are refused with KindConflict, "not_owner", under another one; the others do not depend on the
// owner. KindUnavailable: a change may be made or not. All methods are safe for concurrent use.
type Store struct {
	store *redisclient.Client
	log   *eventlog.Log
}

// New returns the schedules of s. Changes are written by l.
func New(c *redisclient.Client, l *eventlog.Log) *Store {
	return &Store{store: c, log: l}
}

// AddSchedule stores a new schedule and returns it with its revision. KindConflict,
// "limit_reached": the account has limit schedules.
func (h *Store) AddSchedule(ctx context.Context, s signal.Schedule, limit int) (signal.Schedule, error) {
	p := h.store.Partition(s.Account)
	o := eventlog.NewOperation(h.store.Keys)
	k := o.Key(h.store.SchedulesKey(p, s.Account))
	record := codec.Text(appendSchedule(nil, &s))
	o.Guard(eventlog.GuardLengthBelow, k, errTooManySchedules, strconv.Itoa(limit))
	o.Step(eventlog.CmdHSet, k, string(s.ID), record)
	addScheduleDue(o, p, &s)
	o.Announce(s.Account, signal.ScheduleChanged, string(s.ID))
	if _, err := h.log.Apply(ctx, p, o); err != nil {
		return signal.Schedule{}, err
	}
	s.Revision = record
	return s, nil
}

// addScheduleDue stores when s runs next, which is never while it is disabled.
func addScheduleDue(o *eventlog.Operation, p int, s *signal.Schedule) {
	due := o.Key(o.SchedulesDueKey(p))
	if s.Status == signal.ScheduleDisabled {
		o.Step(eventlog.CmdZRem, due, scheduleMember(s.Account, s.ID))
		return
	}
	o.Step(eventlog.CmdZAdd, due, codec.MilliText(s.NextRunAt), scheduleMember(s.Account, s.ID))
}

// scheduleMember returns the member for a schedule: "ACCOUNT SCHEDULE".
func scheduleMember(a signal.AccountID, id signal.ScheduleID) string {
	return string(a) + " " + string(id)
}

// Schedule returns a schedule with its revision. KindNotFound: the account has no such schedule.
func (h *Store) Schedule(ctx context.Context, account signal.AccountID, id signal.ScheduleID) (signal.Schedule, error) {
	p := h.store.Partition(account)
	pipe := h.store.RDB.Pipeline()
	record := pipe.HGet(ctx, h.store.SchedulesKey(p, account), string(id))
	due := pipe.ZScore(ctx, h.store.SchedulesDueKey(p), scheduleMember(account, id))
	rounds := pipe.HMGet(ctx, h.store.ScheduleRoundsKey(p, account), roundFieldsOf(id)...)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return signal.Schedule{}, redisclient.Failed(err, "read schedule")
	}
	if errors.Is(record.Err(), redis.Nil) {
		return signal.Schedule{}, errNoSchedule
	}
	s, err := readSchedule(account, id, record.Val(), due.Val())
	if err == nil {
		h.readRounds(&s, func(name string) string {
			value, _ := rounds.Val()[slices.Index(roundFields, name)].(string)
			return value
		})
	}
	return s, err
}

// readSchedule decodes a schedule that runs next at due, in milliseconds; 0 means never.
func readSchedule(account signal.AccountID, id signal.ScheduleID, record string, due float64) (signal.Schedule, error) {
	s, err := decodeSchedule(account, id, []byte(record))
	if err == nil && due > 0 && s.Status == signal.ScheduleEnabled {
		s.NextRunAt = codec.TimeOfMilli(int64(due))
	}
	return s, err
}

// Schedules returns all schedules of an account with their revisions, newest first. Unreadable
// ones are logged and left out.
func (h *Store) Schedules(ctx context.Context, account signal.AccountID) ([]signal.Schedule, error) {
	p := h.store.Partition(account)
	records, err := h.store.RDB.HGetAll(ctx, h.store.SchedulesKey(p, account)).Result()
	if err != nil {
		return nil, redisclient.Failed(err, "read schedules")
	}
	list := make([]signal.Schedule, 0, len(records))
	if len(records) == 0 {
		return list, nil
	}
	ids, members := make([]string, 0, len(records)), make([]string, 0, len(records))
	for id := range records {
		ids, members = append(ids, id), append(members, scheduleMember(account, signal.ScheduleID(id)))
	}
	pipe := h.store.RDB.Pipeline()
	due := pipe.ZMScore(ctx, h.store.SchedulesDueKey(p), members...)
	rounds := pipe.HGetAll(ctx, h.store.ScheduleRoundsKey(p, account))
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, redisclient.Failed(err, "read runs of schedules")
	}
	for i, id := range ids {
		s, err := readSchedule(account, signal.ScheduleID(id), records[id], due.Val()[i])
		if err != nil {
			h.store.Log.Error("a schedule is not readable", "component", "persistence", "err", err)
			continue
		}
		h.readRounds(&s, func(name string) string { return rounds.Val()[roundField(s.ID, name)] })
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b signal.Schedule) int { return strings.Compare(string(b.ID), string(a.ID)) })
	return list, nil
}

// ChangeSchedule replaces the record that s was read from and returns s with its new revision.
// With replan it also stores NextRunAt; otherwise the next run stays as it is. KindConflict,
// "schedule_changed": the schedule was changed or removed since; read it again.
func (h *Store) ChangeSchedule(ctx context.Context, s signal.Schedule, replan bool) (signal.Schedule, error) {
	p := h.store.Partition(s.Account)
	o := eventlog.NewOperation(h.store.Keys)
	k := o.Key(h.store.SchedulesKey(p, s.Account))
	record := codec.Text(appendSchedule(nil, &s))
	o.Guard(eventlog.GuardFieldIs, k, errScheduleChanged, string(s.ID), s.Revision)
	o.Step(eventlog.CmdHSet, k, string(s.ID), record)
	if replan {
		addScheduleDue(o, p, &s)
	}
	o.Announce(s.Account, signal.ScheduleChanged, string(s.ID))
	if _, err := h.log.Apply(ctx, p, o); err != nil {
		return signal.Schedule{}, err
	}
	s.Revision = record
	return s, nil
}

// RemoveSchedule removes a schedule. A round under way continues. KindNotFound: the account has
// no such schedule.
func (h *Store) RemoveSchedule(ctx context.Context, account signal.AccountID, id signal.ScheduleID) error {
	p := h.store.Partition(account)
	o := eventlog.NewOperation(h.store.Keys)
	k := o.Key(h.store.SchedulesKey(p, account))
	o.Guard(eventlog.GuardFieldExists, k, errNoSchedule, string(id))
	o.Step(eventlog.CmdHDel, k, string(id))
	o.Step(eventlog.CmdHDel, o.Key(h.store.ScheduleRoundsKey(p, account)), roundFieldsOf(id)...)
	o.Step(eventlog.CmdZRem, o.Key(h.store.SchedulesDueKey(p)), scheduleMember(account, id))
	o.Announce(account, signal.ScheduleChanged, string(id))
	_, err := h.log.Apply(ctx, p, o)
	return err
}

// DueSchedules returns at most limit schedules of partition p that are due until the given time,
// the earliest first, and when the next one is due, or zero. An unreadable schedule is logged and
// postponed, and a member without a record is removed; if others may be due that had no place
// beside these, the next time is the given one. Schedules that change during the call may be missing.
func (h *Store) DueSchedules(
	ctx context.Context, p int, until time.Time, limit int,
) (list []signal.Schedule, next time.Time, err error) {
	at, key := codec.MilliText(until), h.store.SchedulesDueKey(p)
	pipe := h.store.RDB.Pipeline()
	found := pipe.ZRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: "-inf", Max: at, Count: int64(limit)})
	later := pipe.ZRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: "(" + at, Max: "+inf", Count: 1})
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, next, redisclient.Failed(err, "read due schedules of partition %d", p)
	}
	if z := later.Val(); len(z) > 0 {
		next = codec.TimeOfMilli(int64(z[0].Score))
	}
	due := found.Val()
	if len(due) == 0 {
		return nil, next, nil
	}
	pipe = h.store.RDB.Pipeline()
	records := make([]*redis.StringCmd, len(due))
	for i, z := range due {
		account, id, _ := strings.Cut(z.Member.(string), " ")
		records[i] = pipe.HGet(ctx, h.store.SchedulesKey(p, signal.AccountID(account)), id)
	}
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, next, redisclient.Failed(err, "read due schedules of partition %d", p)
	}
	freed := false // places of the read
	for i, z := range due {
		member := z.Member.(string)
		account, id, _ := strings.Cut(member, " ")
		if errors.Is(records[i].Err(), redis.Nil) {
			keys := []string{key, h.store.SchedulesKey(p, signal.AccountID(account))}
			if err := undueScript.Run(ctx, h.store.RDB, keys, member, id).Err(); err != nil {
				return nil, next, redisclient.Failed(err, "remove a member of %s", key)
			}
			freed = true
			continue
		}
		s, err := readSchedule(signal.AccountID(account), signal.ScheduleID(id), records[i].Val(), z.Score)
		if err == nil && s.Status != signal.ScheduleEnabled {
			continue // it was disabled between the two reads
		}
		if err != nil {
			h.store.Log.Error("a due schedule is not readable", "component", "persistence", "partition", p, "err", err)
			if err := h.store.Postpone(ctx, key, until, member); err != nil {
				return nil, next, err
			}
			freed = true
			continue
		}
		list = append(list, s)
	}
	if freed && len(due) == limit {
		next = until
	}
	return list, next, nil
}

// MoveSchedule stores when s runs next. KindConflict: "not_owner" under another epoch,
// "schedule_changed" if the schedule was changed since s was read.
func (h *Store) MoveSchedule(ctx context.Context, p int, epoch int64, s signal.Schedule, next time.Time) error {
	o := eventlog.NewOperation(h.store.Keys)
	o.Fence(epoch)
	member, due := scheduleMember(s.Account, s.ID), o.Key(h.store.SchedulesDueKey(p))
	records := o.Key(h.store.SchedulesKey(p, s.Account))
	o.Guard(eventlog.GuardFieldIs, records, errScheduleChanged, string(s.ID), s.Revision)
	o.Guard(eventlog.GuardMember, due, errScheduleChanged, member)
	o.Step(eventlog.CmdZAdd, due, codec.MilliText(next), member)
	_, err := h.log.Apply(ctx, p, o)
	return err
}

// Erase erases the schedules of a deleted account.
func Erase(ctx context.Context, c *redisclient.Client, p int, account signal.AccountID) (string, error) {
	keys := []string{c.SchedulesKey(p, account), c.ScheduleRoundsKey(p, account), c.SchedulesDueKey(p)}
	return "", eraseScript.Run(ctx, c.RDB, keys, string(account)).Err()
}

// appendSchedule appends the record of s, which has all fields but ID, Account, NextRunAt and
// Revision.
func appendSchedule(b []byte, s *signal.Schedule) []byte {
	disabled := byte(0)
	if s.Status == signal.ScheduleDisabled {
		disabled = 1
	}
	b = append(b, scheduleVersion, disabled)
	b = binary.AppendUvarint(b, uint64(codec.MilliOf(s.CreatedAt)))
	b = binary.AppendUvarint(b, uint64(codec.MilliOf(s.UpdatedAt)))
	b = codec.AppendText(b, string(s.Agent))
	b = codec.AppendStrings(b, s.Assets)
	b = codec.AppendText(b, s.Strategy)
	b = codec.AppendText(b, string(s.Timeframe))
	b = codec.AppendText(b, string(s.Risk))
	b = binary.AppendUvarint(b, uint64(max(s.Every, 0)/time.Second))
	return binary.AppendUvarint(b, uint64(max(s.MaxOpen, 0)))
}

// decodeSchedule is the inverse of appendSchedule. The result shares no memory with value.
func decodeSchedule(account signal.AccountID, id signal.ScheduleID, value []byte) (signal.Schedule, error) {
	d := codec.NewDecoder(value)
	if version := d.Byte(); d.Err == nil && version != scheduleVersion {
		d.Fail(fmt.Errorf("version %d is not known: this process reads version %d", version, scheduleVersion))
	}
	s := signal.Schedule{ID: id, Account: account, Status: signal.ScheduleEnabled}
	if d.Byte()&1 != 0 {
		s.Status = signal.ScheduleDisabled
	}
	s.CreatedAt, s.UpdatedAt = d.Time(), d.Time()
	s.Agent = signal.AgentID(d.Text())
	s.Assets = d.Strings()
	s.Strategy = d.Text()
	s.Timeframe, s.Risk = signal.Timeframe(d.Text()), signal.RiskLevel(d.Text())
	s.Every = time.Duration(uint32(d.Uvarint())) * time.Second
	s.MaxOpen = int(uint32(d.Uvarint()))
	if d.Err != nil {
		return signal.Schedule{}, fmt.Errorf("decode schedule %s: %w", id, d.Err)
	}
	s.Revision = string(value)
	return s, nil
}
