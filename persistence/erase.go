package persistence

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
	"github.com/agentsignal/agentsignal/persistence/schedules"
)

//go:embed scripts/erase_note.lua
var eraseNoteText string

var eraseNoteScript = redis.NewScript(eraseNoteText)

// A deleted account's records are erased by the owner of its partition, bit by bit:
// each step looks at no more than redisclient.EraseChunk records and notes how far it came, so
// that another owner goes on from there. Steps may be repeated.
//
// What runs hold at the deletion may still be recorded for a while, so the records
// are erased once at once and once more after eraseGrace, and the logs only then.
// The event log keeps account.deleted itself: other nodes may not have read it.
//
// Not erased here: rate limit buckets, which expire by themselves.

const (
	eraseGrace = 5 * time.Minute
)

// erasing is how far the erasing of an account has come.
type erasing struct {
	deleted time.Time
	stage   int    // in eraseStages
	cursor  string // of the stage; empty at its start
}

// eraseStage erases one chunk of an account's records from cursor on and returns
// where to go on, "" at the end.
type eraseStage func(s *Store, ctx context.Context, w erasingOf, cursor string) (string, error)

// erasingOf is whose records are erased, and by whom.
type erasingOf struct {
	partition int
	epoch     int64
	account   signal.AccountID
}

// erasePass is what is done at once and again after the grace. Webhooks and schedules
// come first: nothing more is to be sent or run.
var erasePass = []eraseStage{(*Store).eraseWebhooks, (*Store).eraseSchedules, (*Store).eraseMails,
	(*Store).eraseJobs, (*Store).eraseDue, (*Store).eraseOpen, (*Store).eraseReplies}

// eraseStages are done in this order; a nil one waits for eraseGrace. Stored states
// name them by index, so a change of the list needs a new version of the state.
var eraseStages = slices.Concat(erasePass, []eraseStage{nil}, erasePass, []eraseStage{(*Store).eraseEvents, (*Store).eraseSignals})

// erasingVersion is the first word of a stored state.
const erasingVersion = "3"

// erasedBefore are the lists of stages of earlier versions, which knew less: how many
// stages they had, and which of them was the wait for the grace. The first knew no
// webhooks, the second no schedules.
var erasedBefore = map[string]struct{ stages, grace int }{"1": {11, 4}, "2": {15, 6}}

func (e erasing) String() string {
	return erasingVersion + " " + strconv.FormatInt(e.deleted.UnixMilli(), 10) + " " + strconv.Itoa(e.stage) + " " + e.cursor
}

func parseErasing(s string) (erasing, error) {
	words := strings.SplitN(s, " ", 4)
	before, old := erasedBefore[words[0]]
	if len(words) != 4 || words[0] != erasingVersion && !old {
		return erasing{}, fmt.Errorf("read erasing: %q is not of the known form", s)
	}
	stages := len(eraseStages)
	if old {
		stages = before.stages
	}
	deleted, err := strconv.ParseInt(words[1], 10, 64)
	stage, err2 := strconv.Atoi(words[2])
	if err != nil || err2 != nil || stage < 0 || stage >= stages {
		return erasing{}, fmt.Errorf("read erasing: %q is not of the known form", s)
	}
	e := erasing{deleted: codec.TimeOfMilli(deleted), stage: stage, cursor: words[3]}
	if old { // the pass it was in begins anew
		e.stage, e.cursor = 0, ""
		if stage > before.grace {
			e.stage = len(erasePass) + 1
		}
	}
	return e, nil
}

// BeginErase notes that the records of account, which was deleted at the given
// time, are to be erased from partition p; EraseStep does it. KindConflict: another
// epoch holds the partition. It may be called more than once.
func (s *Store) BeginErase(ctx context.Context, p int, epoch int64, account signal.AccountID, deleted time.Time) error {
	return s.noteErase(ctx, p, epoch, account, "", erasing{deleted: deleted}.String())
}

// noteErase changes a state from what it is known to be; "" is none.
func (s *Store) noteErase(ctx context.Context, p int, epoch int64, account signal.AccountID, from, to string) error {
	noted, err := eraseNoteScript.Run(ctx, s.RDB, []string{redisclient.EpochKey(p), redisclient.EraseKey(p)},
		strconv.FormatInt(epoch, 10), string(account), from, to).Int()
	if err != nil {
		return redisclient.Unavailable(fmt.Errorf("note erasing in partition %d: %w", p, err))
	}
	if noted == 0 {
		return eventlog.ErrNotOwner
	}
	return nil
}

// EraseStep erases one more chunk of records of deleted accounts from partition p.
// It returns in how long there is more to do: 0 at once, negative if nothing is
// left. KindConflict: another epoch holds the partition.
func (s *Store) EraseStep(ctx context.Context, p int, epoch int64) (time.Duration, error) {
	pending, err := s.RDB.HGetAll(ctx, redisclient.EraseKey(p)).Result()
	if err != nil {
		return 0, redisclient.Unavailable(fmt.Errorf("read erasings of partition %d: %w", p, err))
	}
	least := time.Duration(-1)
	for account, state := range pending {
		e, err := parseErasing(state)
		if err != nil {
			// Begun anew: whatever wrote it, the records must go.
			s.Log.Error("an erasing is not readable", "component", "persistence", "partition", p, "err", err)
			return 0, s.noteErase(ctx, p, epoch, signal.AccountID(account), state, erasing{deleted: s.Now()}.String())
		}
		if eraseStages[e.stage] == nil {
			if wait := e.deleted.Add(eraseGrace).Sub(s.Now()); wait > 0 {
				if least < 0 || wait < least {
					least = wait
				}
				continue
			}
		}
		return 0, s.eraseChunkOf(ctx, p, epoch, signal.AccountID(account), state, e)
	}
	return least, nil
}

// eraseChunkOf does one step of e, which is stored as state.
func (s *Store) eraseChunkOf(ctx context.Context, p int, epoch int64, account signal.AccountID, state string, e erasing) error {
	cursor := ""
	if stage := eraseStages[e.stage]; stage != nil {
		var err error
		cursor, err = stage(s, ctx, erasingOf{p, epoch, account}, e.cursor)
		if errors.Is(err, eventlog.ErrNotOwner) {
			return err
		}
		if err != nil {
			return redisclient.Unavailable(fmt.Errorf("erase account in partition %d, stage %d: %w", p, e.stage, err))
		}
	}
	if e.cursor = cursor; cursor == "" {
		e.stage++
	}
	if e.stage == len(eraseStages) {
		return s.noteErase(ctx, p, epoch, account, state, "")
	}
	return s.noteErase(ctx, p, epoch, account, state, e.String())
}

func (s *Store) eraseWebhooks(ctx context.Context, w erasingOf, cursor string) (string, error) {
	return deliveries.EraseWebhooks(ctx, s.Client, w.partition, w.epoch, w.account, cursor)
}

func (s *Store) eraseSchedules(ctx context.Context, w erasingOf, _ string) (string, error) {
	return schedules.Erase(ctx, s.Client, w.partition, w.account)
}

func (s *Store) eraseMails(ctx context.Context, w erasingOf, cursor string) (string, error) {
	return deliveries.EraseMails(ctx, s.Client, w.partition, w.account, cursor)
}

func (s *Store) eraseJobs(ctx context.Context, w erasingOf, _ string) (string, error) {
	return jobs.Erase(ctx, s.Client, w.partition, w.account)
}

// eraseDue erases the runs that are due.
func (s *Store) eraseDue(ctx context.Context, w erasingOf, cursor string) (string, error) {
	p, account := w.partition, w.account
	found, next, err := s.RDB.ZScan(ctx, redisclient.RunsDueKey(p), redisclient.ScanCursor(cursor), string(account)+" *", redisclient.EraseChunk).Result()
	if err != nil {
		return "", err
	}
	var members []any
	for i := 0; i < len(found); i += 2 { // member and score
		members = append(members, found[i])
	}
	if len(members) > 0 {
		if err := s.RDB.ZRem(ctx, redisclient.RunsDueKey(p), members...).Err(); err != nil {
			return "", err
		}
	}
	return redisclient.CursorText(next), nil
}

// eraseOpen erases the states of open signals.
func (s *Store) eraseOpen(ctx context.Context, w erasingOf, cursor string) (string, error) {
	p, account := w.partition, w.account
	found, next, err := s.RDB.HScan(ctx, redisclient.OpenKey(p), redisclient.ScanCursor(cursor), "", redisclient.EraseChunk).Result()
	if err != nil {
		return "", err
	}
	var fields []string
	for i := 0; i+1 < len(found); i += 2 { // field and value
		open, _, err := codec.DecodeOpen([]byte(found[i]), []byte(found[i+1]))
		if err != nil {
			s.Log.Error("an open signal is not readable", "component", "persistence", "partition", p, "err", err)
			continue
		}
		if open.Account == account {
			fields = append(fields, found[i])
		}
	}
	if len(fields) > 0 {
		if err := s.RDB.HDel(ctx, redisclient.OpenKey(p), fields...).Err(); err != nil {
			return "", err
		}
	}
	return redisclient.CursorText(next), nil
}

// eraseReplies erases the answers that are kept for Idempotency-Keys. No index
// names them, so it passes over the keys of the server that holds the partition.
func (s *Store) eraseReplies(ctx context.Context, w erasingOf, cursor string) (string, error) {
	p, account := w.partition, w.account
	var client redis.Cmdable = s.RDB
	if c, ok := s.RDB.(*redis.ClusterClient); ok {
		master, err := c.MasterForKey(ctx, redisclient.OpenKey(p))
		if err != nil {
			return "", err
		}
		client = master
	}
	keys, next, err := client.Scan(ctx, redisclient.ScanCursor(cursor), redisclient.ReplyKey(p, account, "*"), redisclient.EraseChunk).Result()
	if err != nil {
		return "", err
	}
	if len(keys) > 0 {
		if err := s.RDB.Unlink(ctx, keys...).Err(); err != nil {
			return "", err
		}
	}
	return redisclient.CursorText(next), nil
}

// eraseEvents erases events but the one that says that the account was deleted.
func (s *Store) eraseEvents(ctx context.Context, w erasingOf, cursor string) (string, error) {
	stored := codec.AccountBytes(w.account)
	return s.eraseEntries(ctx, redisclient.EventsKey(w.partition), w.account, cursor, func(header []byte) bool {
		return bytes.Equal(codec.EventAccount(header), stored) && !isDeletion(header)
	})
}

// isDeletion says that header is that of account.deleted.
func isDeletion(header []byte) bool {
	d := codec.Decode(header)
	code := d.Byte()
	return d.Err == nil && int(code) < len(codec.EventCodes) && codec.EventCodes[code] == signal.AccountDeleted
}

// eraseSignals erases the entries of the signal log.
func (s *Store) eraseSignals(ctx context.Context, w erasingOf, cursor string) (string, error) {
	stored := codec.AccountBytes(w.account)
	return s.eraseEntries(ctx, redisclient.SignalsKey(w.partition), w.account, cursor, func(header []byte) bool {
		return bytes.Equal(codec.RecordAccount(header), stored)
	})
}

// eraseEntries removes those entries of a log that belong to the account. It begins
// at the time of the account's id: nothing of it is older.
func (s *Store) eraseEntries(ctx context.Context, key string, account signal.AccountID, cursor string, belongs func(header []byte) bool) (string, error) {
	if cursor == "" {
		cursor = "-"
		if raw, ok := signal.ULIDBytes(string(account)); ok {
			// An hour for what the node that has made the id did not know of Redis' clock.
			made := ulid.Time(ulid.ULID(raw).Time()).Add(-time.Hour)
			cursor = strconv.FormatInt(max(made.UnixMilli(), 0), 10)
		}
	}
	entries, err := s.RDB.XRangeN(ctx, key, cursor, "+", redisclient.EraseChunk).Result()
	if err != nil {
		return "", err
	}
	var ids []string
	for _, e := range entries {
		if header, ok := e.Values["h"].(string); ok && belongs([]byte(header)) {
			ids = append(ids, e.ID)
		}
	}
	for chunk := range slices.Chunk(ids, 100) { // XDEL searches for each id by itself
		if err := s.RDB.XDel(ctx, key, chunk...).Err(); err != nil {
			return "", err
		}
	}
	if len(entries) < redisclient.EraseChunk {
		return "", nil
	}
	return "(" + entries[len(entries)-1].ID, nil
}
