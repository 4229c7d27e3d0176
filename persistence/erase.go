package persistence

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/agents"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/jobs"
	"github.com/agentsignal/agentsignal/persistence/leaves"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/schedules"
	"github.com/agentsignal/agentsignal/persistence/signals"
)

//go:embed scripts
var scripts embed.FS

var eraseNoteScript = redisclient.Script(scripts, "erase_note")

// The owner of a partition erases a deleted account's records in steps. Each step looks at no
// more than redisclient.EraseChunk records and stores its progress, so that another owner can
// continue. Where another process of Redis answers, a scan begins again. Steps may be repeated.
//
// Runs that were under way at the deletion may still record something, so the records are
// erased immediately and again after eraseGrace, and the logs only then. The event log keeps
// account.deleted itself, which other nodes may not have read.
//
// Rate limit buckets are not erased: they expire.

const eraseGrace = 5 * time.Minute

// erasing is the progress of the erasing of an account.
type erasing struct {
	deleted time.Time
	stage   int    // in eraseStages
	gone    string // what tallySignals has counted: record.Tallies with commas
	cursor  string // of the stage; empty at its start
}

// eraseStage erases one chunk of an account's records from cursor on. It returns the next
// cursor, "" at the end.
type eraseStage func(ctx context.Context, c *redisclient.Client, w erasingOf, cursor string) (string, error)

// erasingOf is the account whose records are erased, the epoch of the owner, and what the stages need.
type erasingOf struct {
	partition int
	epoch     int64
	account   signal.AccountID
	leaves    *leaves.Store
	signals   *signals.Store
	progress  *erasing
}

// erasePass runs immediately and again after eraseGrace. Webhooks and schedules come first, so
// that nothing more is sent or run.
var erasePass = []eraseStage{eraseWebhooks, eraseSchedules, eraseAgents, eraseMails, eraseJobs, eraseDue, eraseOpen, eraseReplies}

// eraseStages run in this order; the nil stage waits for eraseGrace. Stored states name a stage
// by its index, so a change of the list needs a new version of the state.
var eraseStages = slices.Concat(erasePass, []eraseStage{nil}, erasePass,
	[]eraseStage{eraseEvents, tallySignals, eraseSignals, eraseSalt})

// erasingVersion is the first word of a stored state.
const erasingVersion = "6"

func (e erasing) String() string {
	return fmt.Sprint(erasingVersion, " ", e.deleted.UnixMilli(), " ", e.stage, " ", e.gone, " ", e.cursor)
}

// NewErasing returns the stored state of the erasing of an account that was deleted at a time.
func NewErasing(deleted time.Time) string { return erasing{deleted: deleted}.String() }

func parseErasing(s string) (erasing, error) {
	words := strings.SplitN(s, " ", 5)
	if len(words) != 5 || words[0] != erasingVersion {
		return erasing{}, fmt.Errorf("read erasing: %q is not of the known form", s)
	}
	deleted, err := strconv.ParseInt(words[1], 10, 64)
	stage, err2 := strconv.Atoi(words[2])
	if err != nil || err2 != nil || stage < 0 || stage >= len(eraseStages) {
		return erasing{}, fmt.Errorf("read erasing: %q is not of the known form", s)
	}
	return erasing{deleted: codec.TimeOfMilli(deleted), stage: stage, gone: words[3], cursor: words[4]}, nil
}

// Eraser erases the records of deleted accounts.
type Eraser struct {
	client  *redisclient.Client
	leaves  *leaves.Store
	signals *signals.Store
}

// BeginErase starts the erasing of account, which was deleted at the given time, in partition p.
// EraseStep erases the records. KindConflict: another epoch holds the partition. BeginErase may
// be called repeatedly.
func (e *Eraser) BeginErase(ctx context.Context, p int, epoch int64, account signal.AccountID, deleted time.Time) error {
	return e.noteErase(ctx, p, epoch, account, "", erasing{deleted: deleted}.String())
}

// noteErase replaces the state from by to; "" means that there is no state.
func (e *Eraser) noteErase(ctx context.Context, p int, epoch int64, account signal.AccountID, from, to string) error {
	noted, err := eraseNoteScript.Run(ctx, e.client.RDB, []string{e.client.EpochKey(p), e.client.EraseKey(p)},
		strconv.FormatInt(epoch, 10), string(account), from, to).Int()
	if err != nil {
		return redisclient.Failed(err, "note erasing in partition %d", p)
	}
	if noted == 0 {
		return eventlog.ErrNotOwner
	}
	return nil
}

// EraseStep erases one chunk of records of deleted accounts from partition p. It returns after
// how long to call it again, which is negative if nothing is left. KindConflict: another epoch
// holds the partition.
func (e *Eraser) EraseStep(ctx context.Context, p int, epoch int64) (time.Duration, error) {
	pending, err := e.client.RDB.HGetAll(ctx, e.client.EraseKey(p)).Result()
	if err != nil {
		return 0, redisclient.Failed(err, "read erasings of partition %d", p)
	}
	next := time.Duration(-1)
	for account, state := range pending {
		progress, err := parseErasing(state)
		if err != nil {
			// Start again, since the records must be erased in any case.
			e.client.Log.Error("an erasing is not readable", "component", "persistence", "partition", p, "err", err)
			again := erasing{deleted: e.client.Now()}.String()
			return 0, e.noteErase(ctx, p, epoch, signal.AccountID(account), state, again)
		}
		if eraseStages[progress.stage] == nil {
			if wait := progress.deleted.Add(eraseGrace).Sub(e.client.Now()); wait > 0 {
				if next < 0 || wait < next {
					next = wait
				}
				continue
			}
		}
		w := erasingOf{p, epoch, signal.AccountID(account), e.leaves, e.signals, &progress}
		return 0, e.eraseChunkOf(ctx, w, state)
	}
	return next, nil
}

// eraseChunkOf does one step of the progress that is stored as state.
func (e *Eraser) eraseChunkOf(ctx context.Context, w erasingOf, state string) error {
	progress, cursor := w.progress, ""
	if stage := eraseStages[progress.stage]; stage != nil {
		var err error
		cursor, err = stage(ctx, e.client, w, progress.cursor)
		if errors.Is(err, eventlog.ErrNotOwner) {
			return err
		}
		if err != nil {
			err = fmt.Errorf("erase account in partition %d, stage %d: %w", w.partition, progress.stage, err)
			return redisclient.Unavailable(err)
		}
	}
	if progress.cursor = cursor; cursor == "" {
		progress.stage++
	}
	to := ""
	if progress.stage < len(eraseStages) {
		to = progress.String()
	}
	return e.noteErase(ctx, w.partition, w.epoch, w.account, state, to)
}

func eraseWebhooks(ctx context.Context, c *redisclient.Client, w erasingOf, cursor string) (string, error) {
	return deliveries.EraseWebhooks(ctx, c, w.partition, w.epoch, w.account, cursor)
}

func eraseSchedules(ctx context.Context, c *redisclient.Client, w erasingOf, _ string) (string, error) {
	return schedules.Erase(ctx, c, w.partition, w.account)
}

func eraseAgents(ctx context.Context, c *redisclient.Client, w erasingOf, _ string) (string, error) {
	return agents.Erase(ctx, c, w.partition, w.account)
}

func eraseMails(ctx context.Context, c *redisclient.Client, w erasingOf, cursor string) (string, error) {
	return deliveries.EraseMails(ctx, c, w.partition, w.account, cursor)
}

func eraseJobs(ctx context.Context, c *redisclient.Client, w erasingOf, _ string) (string, error) {
	return jobs.Erase(ctx, c, w.partition, w.account)
}

// eraseDue erases the runs that are due.
func eraseDue(ctx context.Context, c *redisclient.Client, w erasingOf, cursor string) (string, error) {
	key, match := c.RunsDueKey(w.partition), string(w.account)+" *"
	found, next, err := c.ScanStep(ctx, key, cursor, func(pipe redis.Pipeliner, from uint64) *redis.ScanCmd {
		return pipe.ZScan(ctx, key, from, match, redisclient.EraseChunk)
	})
	if err != nil {
		return "", err
	}
	var members []any
	for i := 0; i < len(found); i += 2 { // member and score
		members = append(members, found[i])
	}
	if len(members) > 0 {
		if err := c.RDB.ZRem(ctx, key, members...).Err(); err != nil {
			return "", err
		}
	}
	return next, nil
}

// eraseOpen erases the states of open signals.
func eraseOpen(ctx context.Context, c *redisclient.Client, w erasingOf, cursor string) (string, error) {
	key := c.OpenKey(w.partition)
	found, next, err := c.ScanStep(ctx, key, cursor, func(pipe redis.Pipeliner, from uint64) *redis.ScanCmd {
		return pipe.HScan(ctx, key, from, "", redisclient.EraseChunk)
	})
	if err != nil {
		return "", err
	}
	var fields []string
	for i := 0; i+1 < len(found); i += 2 { // field and value
		open, _, err := codec.DecodeOpen([]byte(found[i]), []byte(found[i+1]))
		if err != nil {
			c.Log.Error("an open signal is not readable", "component", "persistence",
				"partition", w.partition, "err", err)
			continue
		}
		if open.Account == w.account {
			fields = append(fields, found[i])
		}
	}
	if len(fields) > 0 {
		if err := c.RDB.HDel(ctx, key, fields...).Err(); err != nil {
			return "", err
		}
	}
	return next, nil
}

// eraseReplies erases the replies that are kept for Idempotency-Keys. They are in no index, so it
// scans the keys of the server that holds the partition.
func eraseReplies(ctx context.Context, c *redisclient.Client, w erasingOf, cursor string) (string, error) {
	key := c.OpenKey(w.partition)
	match := c.ReplyKey(w.partition, w.account, "*")
	keys, next, err := c.ScanStep(ctx, key, cursor, func(pipe redis.Pipeliner, from uint64) *redis.ScanCmd {
		return pipe.Scan(ctx, from, match, redisclient.EraseChunk)
	})
	if err != nil {
		return "", err
	}
	if len(keys) > 0 {
		if err := c.RDB.Unlink(ctx, keys...).Err(); err != nil {
			return "", err
		}
	}
	return next, nil
}

// eraseEvents erases all events but account.deleted.
func eraseEvents(ctx context.Context, c *redisclient.Client, w erasingOf, cursor string) (string, error) {
	stored := codec.AccountBytes(w.account)
	return eraseEntries(ctx, c, c.EventsKey(w.partition), w, cursor, func(header []byte) bool {
		return bytes.Equal(codec.EventAccount(header), stored) && !isDeletion(header)
	})
}

// isDeletion reports whether header is that of account.deleted.
func isDeletion(header []byte) bool {
	d := codec.Decode(header)
	code := d.Byte()
	return d.Err == nil && int(code) < len(codec.EventCodes) && codec.EventCodes[code] == signal.AccountDeleted
}

// tallySignals counts the signals that eraseSignals erases, which the record keeps: publicly, so those of the account's own
// agents without their names. It reads the log at once: only a whole one tells how the signals of an agent ended.
func tallySignals(ctx context.Context, _ *redisclient.Client, w erasingOf, _ string) (string, error) {
	agents, tallies := map[signal.SignalID]string{}, record.Tallies(nil)
	_, err := w.signals.EachRecord(ctx, w.account, signal.Position{}, func(_ signal.Position, s *signal.Signal) {
		if s.Closing == nil {
			agents[s.ID] = s.Agent.Label()
			tallies = tallies.Plus(record.Tallies{{Agent: s.Agent.Label(), Signals: 1}})
			return
		}
		if agent, ok := agents[s.ID]; ok && s.Closing.PnLPercent != nil {
			tally := record.Tally{Agent: agent, Lost: 1}
			if *s.Closing.PnLPercent > 0 {
				tally.Won, tally.Lost = 1, 0
			}
			tallies = tallies.Plus(record.Tallies{tally})
		}
	})
	w.progress.gone = strings.ReplaceAll(tallies.String(), " ", ",")
	return "", err
}

// eraseSignals erases the entries of the signal log, after each has its leaf, and then all blocks of it.
func eraseSignals(ctx context.Context, c *redisclient.Client, w erasingOf, cursor string) (string, error) {
	for more := true; more; {
		var err error
		if _, more, err = w.leaves.AppendLeaves(ctx, w.partition, w.epoch); err != nil {
			return "", err
		}
	}
	stored := codec.AccountBytes(w.account)
	next, err := eraseEntries(ctx, c, c.SignalsKey(w.partition), w, cursor, func(header []byte) bool {
		return bytes.Equal(codec.RecordAccount(header), stored)
	})
	if err == nil && next == "" { // Store.Compact makes none while an account is being erased
		err = c.RDB.Del(ctx, c.BlocksKey(w.partition)).Err()
	}
	return next, err
}

// eraseSalt erases what opens the leaves of the account, and what the last audit has found. The
// leaves stay, and stay counted.
func eraseSalt(ctx context.Context, c *redisclient.Client, w erasingOf, _ string) (string, error) {
	if err := c.RDB.HDel(ctx, c.AuditKey(w.partition), string(w.account)).Err(); err != nil {
		return "", err
	}
	gone, err := record.ParseTallies(strings.ReplaceAll(w.progress.gone, ",", " "))
	if err != nil {
		return "", err
	}
	return "", w.leaves.EraseAccount(ctx, w.partition, w.account, gone)
}

// eraseEntries removes the entries of a log that belong to the account. It starts at the time of
// the account's id, since nothing of the account is older.
func eraseEntries(
	ctx context.Context, c *redisclient.Client, key string, w erasingOf, cursor string,
	belongs func(header []byte) bool,
) (string, error) {
	if cursor == "" {
		cursor = "-"
		if raw, ok := signal.ULIDBytes(string(w.account)); ok {
			// An hour for the difference between Redis' clock and that of the node that made the id.
			made := ulid.Time(ulid.ULID(raw).Time()).Add(-time.Hour)
			cursor = strconv.FormatInt(max(made.UnixMilli(), 0), 10)
		}
	}
	entries, err := c.RDB.XRangeN(ctx, key, cursor, "+", redisclient.EraseChunk).Result()
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
		if err := c.RDB.XDel(ctx, key, chunk...).Err(); err != nil {
			return "", err
		}
	}
	if len(entries) < redisclient.EraseChunk {
		return "", nil
	}
	return "(" + entries[len(entries)-1].ID, nil
}
