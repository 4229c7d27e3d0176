package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// pipeCommands and pipeBytes bound what one round trip writes.
const (
	pipeCommands = 1000
	pipeBytes    = 4 << 20
)

// target is the installation that a backup is written into.
type target struct {
	*redisclient.Client
	summary Summary
	same    bool // number of partitions
	now     time.Time

	pipe     redis.Pipeliner
	bytes    int
	accounts map[signal.AccountID]bool // whether they exist, of those that have something
	// By partition of the backup: up to where events have had their effect.
	positions map[int]signal.Position
	schedules map[string]bool
	bodies    map[string]bool // payloads that are stored, by partition and key
	newest    map[string]logEnd
}

func newTarget(c *redisclient.Client, s Summary) *target {
	return &target{Client: c, summary: s, same: s.Partitions == c.Partitions(), now: c.Now(),
		pipe: c.RDB.Pipeline(), accounts: map[signal.AccountID]bool{}, positions: map[int]signal.Position{},
		schedules: map[string]bool{}, bodies: map[string]bool{}, newest: map[string]logEnd{}}
}

// write writes a record, at the latest with one of the next ones or by finish.
func (t *target) write(ctx context.Context, k kind, f fields) error {
	if err := validate(k, f, t.summary.Partitions); err != nil {
		return err
	}
	for _, v := range f {
		t.bytes += len(v)
	}
	r := records[k]
	if r.sameOnly && !t.same {
		return nil
	}
	err := r.load(ctx, t, f)
	if err != nil && !errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w (a record of kind %d: %w)", ErrDamaged, k, err)
	}
	if err == nil && (t.pipe.Len() >= pipeCommands || t.bytes >= pipeBytes) {
		err = t.flush(ctx)
	}
	return err
}

// flush sends what was collected. ErrDamaged: Redis finds a fault in it.
func (t *target) flush(ctx context.Context) error {
	t.bytes = 0
	err := ctx.Err()
	if t.pipe.Len() > 0 {
		err = redisclient.Execute(ctx, t.pipe)
	}
	for _, fault := range []string{"wrong number", "The ID", "Invalid stream ID", "value", "WRONGTYPE"} {
		if redis.HasErrorPrefix(err, fault) {
			return fmt.Errorf("%w (redis does not take what it has: %w)", ErrDamaged, err)
		}
	}
	return redisclient.Failed(err, "restore")
}

// expire makes key end at the time in a field; 0 is never.
func (t *target) expire(ctx context.Context, key string, f fields, i int) {
	if ms := f.number(i); ms > 0 {
		t.pipe.PExpireAt(ctx, key, time.UnixMilli(ms))
	}
}

// moved returns the position that p of a partition of the backup gets. With another number of partitions, the
// positions of several logs come into one: the order in each is kept, and none is there twice.
func (t *target) moved(from int, p signal.Position) signal.Position {
	if t.same {
		return p
	}
	return signal.Position{MS: p.MS, Seq: p.Seq*int64(t.summary.Partitions) + int64(from)}
}

// restamped moves the first n positions of a value.
func (t *target) restamped(value []byte, from, n int) ([]byte, error) {
	if t.same {
		return value, nil
	}
	var b []byte
	for range n {
		at, rest, err := codec.CutStamp(value)
		if err != nil {
			return nil, err
		}
		b, value = append(t.moved(from, at).Append(b), ' '), rest
	}
	return append(b, value...), nil
}

// from returns the partition of account in the backup.
func (t *target) from(account signal.AccountID) int {
	return redisclient.PartitionOf(account, t.summary.Partitions)
}

// of returns the partition of what is written for account, which is erased unless its record comes, too.
func (t *target) of(account signal.AccountID) int {
	if _, known := t.accounts[account]; !known {
		t.accounts[account] = false
	}
	return t.Partition(account)
}

// to is of for what may not name its account, since it is unreadable.
func (t *target) to(from int, account signal.AccountID) (p int, ok bool) {
	if account != "" {
		return t.of(account), true
	}
	if !t.same {
		t.summary.Unreadable++
	}
	return from, t.same
}

// set stores a value until the time in a field, if that has not passed.
func (t *target) set(ctx context.Context, key string, f fields, until int, value string) {
	if !f.expired(until, t.now) {
		t.pipe.Set(ctx, key, value, 0)
		t.expire(ctx, key, f, until)
	}
}

// logEnd is what a restored log has.
type logEnd struct {
	last  signal.Position
	added int64
}

// append appends an entry to a log.
func (t *target) append(ctx context.Context, key string, at signal.Position, fields ...any) {
	end := t.newest[key]
	t.newest[key] = logEnd{at, end.added + 1}
	t.pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: at.String(), Values: fields})
}

// setEnd sets the newest id of a stream, how many entries were added, and the newest that was deleted.
func (t *target) setEnd(ctx context.Context, key string, f fields) {
	if f.text(0) == (signal.Position{}).String() {
		return // there was no stream
	}
	if _, filled := t.newest[key]; !filled { // all entries were trimmed
		t.pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: f.text(0), Values: []any{"h", ""}})
		t.pipe.XTrimMaxLen(ctx, key, 0) // XDEL would be remembered as the newest deletion
	}
	t.pipe.Do(ctx, "XSETID", key, f.text(0), "ENTRIESADDED", f.text(1), "MAXDELETEDID", f.text(2))
}

// finishLogs ends the logs of other partitions than those of the backup.
func (t *target) finishLogs(ctx context.Context) {
	for p := range t.Partitions() {
		t.pipe.Set(ctx, t.PositionKey(p), signal.Position{}.String(), 0)
		for _, key := range []string{t.EventsKey(p), t.SignalsKey(p)} {
			if end, ok := t.newest[key]; ok {
				t.setEnd(ctx, key, fieldsOf(end.last, end.added+1, signal.Position{}))
			}
		}
	}
}

// finish writes what is known only in the end.
func (t *target) finish(ctx context.Context) error {
	if !t.same {
		t.finishLogs(ctx)
	}
	// An account that was deleted while the backup was made has no record, and may have anything else.
	for account, exists := range t.accounts {
		if !exists {
			t.pipe.HSet(ctx, t.EraseKey(t.Partition(account)), string(account), persistence.NewErasing(t.now))
		}
	}
	if err := t.flush(ctx); err != nil {
		return err
	}
	for p := range t.Partitions() {
		if err := t.Reads.Confirm(ctx, t.ConfirmKey(p)); err != nil {
			return err
		}
	}
	return errors.Join(t.Reads.Confirm(ctx, t.ConfirmAuthKey()), t.Installation.EndRestore(ctx))
}
