package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	// pipeCommands and pipeBytes bound what one round trip writes.
	pipeCommands = 1000
	pipeBytes    = 4 << 20
	// jobsKept is how long the lists of restored jobs are kept at least.
	jobsKept = 26 * time.Hour
)

// Check reads a backup to its end, and returns what it has. It returns ErrDamaged, ErrNewer, or an error if the values
// have another version than this build reads. opens may be nil.
func Check(r io.Reader, opens Opens) (Summary, error) {
	in, err := newReader(r)
	if err != nil {
		return Summary{}, err
	}
	defer in.close()
	s, err := readHeader(in)
	if err != nil {
		return s, err
	}
	for {
		k, f, err := in.next()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		if err := validate(k, f, s.Partitions); err != nil {
			return s, err
		}
		s.count(k)
		if k != kindWebhook || opens == nil {
			continue
		}
		w, err := webhookOf(f)
		if err != nil {
			return s, err
		}
		decoded, err := w.Webhook()
		if err != nil {
			return s, err
		}
		s.check(&decoded, opens)
	}
}

// readHeader reads the first record.
func readHeader(in *reader) (Summary, error) {
	k, fields, err := in.next()
	if err != nil {
		return Summary{}, unexpectedEnd(err)
	}
	var h header
	if k != kindHeader || len(fields) != 1 || json.Unmarshal(fields[0], &h) != nil ||
		h.Partitions < 1 || h.Partitions > redisclient.MaxPartitions {
		return Summary{}, ErrDamaged
	}
	if h.Formats != codec.Version {
		return Summary{}, fmt.Errorf("the values in the backup have version %d, and this build reads version %d: "+
			"use a build for that version", h.Formats, codec.Version)
	}
	return Summary{CreatedAt: h.CreatedAt, Build: h.Build, Partitions: h.Partitions}, nil
}

// unexpectedEnd returns ErrDamaged for a file that ends before the first record.
func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return ErrDamaged
	}
	return err
}

// loader writes a backup into an empty Redis.
type loader struct {
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

func newLoader(c *redisclient.Client, s Summary) *loader {
	return &loader{Client: c, summary: s, same: s.Partitions == c.Partitions(), now: c.Now(),
		pipe: c.RDB.Pipeline(), accounts: map[signal.AccountID]bool{}, positions: map[int]signal.Position{},
		schedules: map[string]bool{}, bodies: map[string]bool{}, newest: map[string]logEnd{}}
}

// Load writes the backup in r, which Check has read, into the Redis of c, which Begin has prepared. ErrDamaged,
// or an error of Redis.
func Load(ctx context.Context, c *redisclient.Client, r io.Reader) (Summary, error) {
	in, err := newReader(r)
	if err != nil {
		return Summary{}, err
	}
	defer in.close()
	summary, err := readHeader(in)
	if err != nil {
		return summary, err
	}
	l := newLoader(c, summary)
	for {
		k, fields, err := in.next()
		if errors.Is(err, io.EOF) {
			return l.summary, l.finish(ctx)
		}
		if err == nil {
			l.summary.count(k)
			err = l.record(ctx, k, fields)
		}
		if err == nil && (l.pipe.Len() >= pipeCommands || l.bytes >= pipeBytes) {
			err = l.flush(ctx)
		}
		if err != nil {
			return l.summary, err
		}
	}
}

// flush sends what was collected. ErrDamaged: Redis finds a fault in it.
func (l *loader) flush(ctx context.Context) error {
	l.bytes = 0
	err := ctx.Err()
	if l.pipe.Len() > 0 {
		err = redisclient.Execute(ctx, l.pipe)
	}
	for _, fault := range []string{"wrong number", "The ID", "Invalid stream ID", "value", "WRONGTYPE"} {
		if redis.HasErrorPrefix(err, fault) {
			return fmt.Errorf("%w (redis does not take what it has: %w)", ErrDamaged, err)
		}
	}
	return redisclient.Failed(err, "restore")
}

// rows has how each kind is written, how many fields it has at least, whether the first is a partition, and how many of the
// first are parts of the name of a key.
var rows = map[kind]struct {
	fields      int
	load        func(l *loader, ctx context.Context, f [][]byte) error
	ofPartition bool
	names       int
}{
	kindCheckpoint:    {1, (*loader).checkpoint, false, 0},
	kindCountersigned: {2, (*loader).countersigned, false, 0},
	kindPosition:      {2, (*loader).position, true, 0},
	kindWebhook:       {4, (*loader).webhook, false, 1},
	kindDelivery:      {6, (*loader).delivery, false, 2},
	kindWait:          {5, (*loader).wait, false, 2},
	kindMail:          {4, (*loader).mail, false, 0},
	kindSchedule:      {4, (*loader).schedule, false, 1},
	kindOpen:          {4, (*loader).open, true, 0},
	kindRunDue:        {3, (*loader).runDue, false, 0},
	kindErase:         {2, (*loader).erase, false, 0},
	kindAudit:         {3, (*loader).audit, true, 0},
	kindLeafHead:      {2, (*loader).leafHead, true, 0},
	kindLeafAccount:   {3, (*loader).leafAccount, true, 0},
	kindScheduleDue:   {3, (*loader).scheduleDue, false, 0},
	kindEvent:         {5, (*loader).event, true, 0},
	kindSignal:        {5, (*loader).signal, true, 0},
	kindLeaf:          {3, (*loader).leaf, true, 0},
	kindTile:          {4, (*loader).tile, true, 0},
	kindLogEnd:        {7, (*loader).logEnd, true, 0},
	kindOutbox:        {2, (*loader).outbox, false, 0},
	kindAccount:       {2, (*loader).account, false, 1},
	kindKeysOf:        {1, (*loader).keysOf, false, 1},
	kindAPIKey:        {1, (*loader).apiKey, false, 1},
	kindJob:           {7, (*loader).job, false, 2},
	kindReply:         {4, (*loader).reply, false, 2},
	kindString:        {3, (*loader).text, false, 0},
	kindHash:          {1, (*loader).hash, false, 0},
	kindSortedSet:     {1, (*loader).sortedSet, false, 0},
	kindEntry:         {2, (*loader).entry, false, 0},
	kindStreamEnd:     {4, (*loader).streamEnd, false, 0},
}

// validate returns ErrDamaged for a record that no build writes: a Redis that others share gets no key of another name.
// partitions is their number in the backup.
func validate(k kind, f [][]byte, partitions int) error {
	row, known := rows[k]
	if !known || len(f) < row.fields {
		return fmt.Errorf("%w (a record of kind %d with %d fields)", ErrDamaged, k, len(f))
	}
	if p, err := strconv.Atoi(string(f[0])); row.ofPartition && (err != nil || p < 0 || p >= partitions) {
		return fmt.Errorf("%w (a record of partition %q)", ErrDamaged, f[0])
	}
	for _, part := range f[:row.names] {
		if len(part) == 0 {
			return fmt.Errorf("%w (a record of kind %d without a name)", ErrDamaged, k)
		}
	}
	if asItIs[k] != nil && !asItIs[k](string(f[0])) {
		return fmt.Errorf("%w (a record of the key %q)", ErrDamaged, f[0])
	}
	return nil
}

// record writes a record.
func (l *loader) record(ctx context.Context, k kind, f [][]byte) error {
	if err := validate(k, f, l.summary.Partitions); err != nil {
		return err
	}
	for _, v := range f {
		l.bytes += len(v)
	}
	err := rows[k].load(l, ctx, f)
	if err != nil && !errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w (a record of kind %d: %w)", ErrDamaged, k, err)
	}
	return err
}

// partition returns the number in a field, which record has checked.
func partition(f []byte) int {
	p, _ := strconv.Atoi(string(f))
	return p
}

func parsed(f []byte) (n int64) {
	n, _ = strconv.ParseInt(string(f), 10, 64)
	return n
}

func scoreOf(f []byte) float64 {
	s, _ := strconv.ParseFloat(string(f), 64)
	return s
}

// values returns fields as arguments of a command. They are copied: the buffer of the reader is used again.
func values(f [][]byte) []any {
	list := make([]any, len(f))
	for i, v := range f {
		list[i] = string(v)
	}
	return list
}

// moved returns the position that p of a partition of the backup gets. With another number of partitions, the
// positions of several logs come into one: the order in each is kept, and none is there twice.
func (l *loader) moved(from int, p signal.Position) signal.Position {
	if l.same {
		return p
	}
	return signal.Position{MS: p.MS, Seq: p.Seq*int64(l.summary.Partitions) + int64(from)}
}

// restamped moves the first n positions of a value.
func (l *loader) restamped(value []byte, from, n int) ([]byte, error) {
	if l.same {
		return value, nil
	}
	var b []byte
	for range n {
		at, rest, err := codec.CutStamp(value)
		if err != nil {
			return nil, err
		}
		b, value = append(l.moved(from, at).Append(b), ' '), rest
	}
	return append(b, value...), nil
}

// from returns the partition of account in the backup.
func (l *loader) from(account signal.AccountID) int {
	return redisclient.PartitionOf(account, l.summary.Partitions)
}

// expired reports whether the time in a field has passed; 0 never passes.
func (l *loader) expired(f []byte) bool {
	ms := parsed(f)
	return ms != 0 && ms <= l.now.UnixMilli()
}

// expire makes key end at the time in a field; 0 is never.
func (l *loader) expire(ctx context.Context, key string, f []byte) {
	if ms := parsed(f); ms > 0 {
		l.pipe.PExpireAt(ctx, key, time.UnixMilli(ms))
	}
}

// of returns the partition of what is written for account, which is erased unless its record comes, too.
func (l *loader) of(account signal.AccountID) int {
	if _, known := l.accounts[account]; !known {
		l.accounts[account] = false
	}
	return l.Partition(account)
}

// to is of for what may not name its account, since it is unreadable.
func (l *loader) to(from int, account []byte) (p int, ok bool) {
	if len(account) > 0 {
		return l.of(signal.AccountID(account)), true
	}
	if !l.same {
		l.summary.Unreadable++
	}
	return from, l.same
}

// finish writes what is known only in the end.
func (l *loader) finish(ctx context.Context) error {
	if !l.same {
		for p := range l.Partitions() {
			l.pipe.Set(ctx, l.PositionKey(p), signal.Position{}.String(), 0)
			for _, key := range []string{l.EventsKey(p), l.SignalsKey(p)} {
				if end, ok := l.newest[key]; ok {
					l.setEnd(ctx, key, [][]byte{[]byte(end.last.String()), number(end.added + 1),
						[]byte(signal.Position{}.String())})
				}
			}
		}
	}
	// An account that was deleted while the backup was made has no record, and may have anything else.
	for account, exists := range l.accounts {
		if !exists {
			l.pipe.HSet(ctx, l.EraseKey(l.Partition(account)), string(account), persistence.NewErasing(l.now))
		}
	}
	if err := l.flush(ctx); err != nil {
		return err
	}
	for p := range l.Partitions() {
		if err := l.ConfirmRead(ctx, l.ConfirmKey(p)); err != nil {
			return err
		}
	}
	return errors.Join(l.ConfirmRead(ctx, l.ConfirmAuthKey()), l.EndRestore(ctx))
}
