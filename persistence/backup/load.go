package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
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

func webhookOf(f [][]byte) (deliveries.Copied, error) {
	if len(f) != 4 {
		return deliveries.Copied{}, ErrDamaged
	}
	return deliveries.Copied{Account: signal.AccountID(f[0]), ID: signal.WebhookID(f[1]), Record: string(f[2]),
		Health: string(f[3])}, nil
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

// logEnd is what a restored log has.
type logEnd struct {
	last  signal.Position
	added int64
}

// Load writes the backup in r, which Check has read, into the Redis of c, which Begin has prepared.
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
	l := &loader{Client: c, summary: summary, same: summary.Partitions == c.Partitions(), now: c.Now(),
		pipe: c.RDB.Pipeline(), accounts: map[signal.AccountID]bool{}, positions: map[int]signal.Position{},
		schedules: map[string]bool{}, bodies: map[string]bool{}, newest: map[string]logEnd{}}
	for {
		k, fields, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			l.summary.count(k)
			err = l.record(ctx, k, fields)
		}
		if err == nil && (l.pipe.Len() >= pipeCommands || l.bytes >= pipeBytes) {
			err = l.flush(ctx)
		}
		if err != nil {
			return l.summary, redisclient.Failed(err, "restore")
		}
	}
	err = l.finish(ctx)
	return l.summary, redisclient.Failed(err, "restore")
}

// flush sends what was collected.
func (l *loader) flush(ctx context.Context) error {
	l.bytes = 0
	if l.pipe.Len() == 0 {
		return ctx.Err()
	}
	return redisclient.Execute(ctx, l.pipe)
}

// rows has how each kind is written, how many fields it has at least, and whether the first is a partition.
var rows = map[kind]struct {
	fields      int
	load        func(l *loader, ctx context.Context, f [][]byte) error
	ofPartition bool
}{
	kindCheckpoint:    {1, (*loader).checkpoint, false},
	kindCountersigned: {2, (*loader).countersigned, false},
	kindPosition:      {2, (*loader).position, true},
	kindWebhook:       {4, (*loader).webhook, false},
	kindDelivery:      {6, (*loader).delivery, false},
	kindWait:          {5, (*loader).wait, false},
	kindMail:          {4, (*loader).mail, false},
	kindSchedule:      {4, (*loader).schedule, false},
	kindOpen:          {4, (*loader).open, true},
	kindRunDue:        {3, (*loader).runDue, false},
	kindErase:         {2, (*loader).erase, false},
	kindAudit:         {3, (*loader).audit, true},
	kindLeafHead:      {2, (*loader).leafHead, true},
	kindLeafAccount:   {3, (*loader).leafAccount, true},
	kindScheduleDue:   {3, (*loader).scheduleDue, false},
	kindEvent:         {5, (*loader).event, true},
	kindSignal:        {5, (*loader).signal, true},
	kindLeaf:          {3, (*loader).leaf, true},
	kindTile:          {4, (*loader).tile, true},
	kindLogEnd:        {7, (*loader).logEnd, true},
	kindOutbox:        {2, (*loader).outbox, false},
	kindAccount:       {2, (*loader).account, false},
	kindKeysOf:        {1, (*loader).keysOf, false},
	kindAPIKey:        {1, (*loader).apiKey, false},
	kindJob:           {7, (*loader).job, false},
	kindReply:         {4, (*loader).reply, false},
	kindString:        {3, (*loader).text, false},
	kindHash:          {1, (*loader).hash, false},
	kindSortedSet:     {1, (*loader).sortedSet, false},
	kindEntry:         {2, (*loader).entry, false},
	kindStreamEnd:     {4, (*loader).streamEnd, false},
}

// record writes a record.
func (l *loader) record(ctx context.Context, k kind, f [][]byte) error {
	row, known := rows[k]
	if !known || len(f) < row.fields {
		return fmt.Errorf("%w (a record of kind %d with %d fields)", ErrDamaged, k, len(f))
	}
	for _, v := range f {
		l.bytes += len(v)
	}
	if p, err := strconv.Atoi(string(f[0])); row.ofPartition && (err != nil || p < 0 || p >= l.summary.Partitions) {
		return fmt.Errorf("%w (a record of partition %q)", ErrDamaged, f[0])
	}
	return row.load(l, ctx, f)
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

func (l *loader) checkpoint(ctx context.Context, f [][]byte) error {
	l.pipe.Set(ctx, l.CheckpointKey(0), string(f[0]), 0)
	return nil
}

func (l *loader) countersigned(ctx context.Context, f [][]byte) error {
	l.pipe.HSet(ctx, l.CountersignedKey(0), values(f)...)
	return nil
}

func (l *loader) position(ctx context.Context, f [][]byte) error {
	at, ok := signal.ParsePosition(string(f[1]))
	if !ok {
		return ErrDamaged
	}
	l.positions[partition(f[0])] = at
	if l.same {
		l.pipe.Set(ctx, l.PositionKey(partition(f[0])), string(f[1]), 0)
	}
	return nil
}

func (l *loader) webhook(ctx context.Context, f [][]byte) error {
	w, err := webhookOf(f)
	if err != nil {
		return err
	}
	from := l.from(w.Account)
	w.Move(func(p signal.Position) signal.Position { return l.moved(from, p) })
	w.Restore(ctx, l.pipe, l.Keys, l.Partition(w.Account))
	return nil
}

func (l *loader) delivery(ctx context.Context, f [][]byte) error {
	d := deliveries.CopiedDelivery{Account: signal.AccountID(f[0]), Webhook: signal.WebhookID(f[1]), Member: string(f[2]),
		Due: scoreOf(f[3]), Record: string(f[4]), Body: string(f[5])}
	key, _ := deliveries.BodyKeyOf(d.Record)
	p := l.Partition(d.Account)
	body := strconv.Itoa(p) + " " + key
	err := d.Restore(ctx, l.pipe, l.Keys, p, l.bodies[body])
	l.bodies[body] = true
	return err
}

func (l *loader) wait(ctx context.Context, f [][]byte) error {
	if l.expired(f[2]) {
		return nil
	}
	key := l.WaitsKey(l.Partition(signal.AccountID(f[0])), signal.WebhookID(f[1]))
	l.pipe.HSet(ctx, key, string(f[3]), string(f[4]))
	l.expire(ctx, key, f[2])
	return nil
}

func (l *loader) mail(ctx context.Context, f [][]byte) error {
	p := l.Partition(signal.AccountID(f[0]))
	l.pipe.ZAdd(ctx, l.MailsKey(p), redis.Z{Score: scoreOf(f[2]), Member: string(f[1])})
	l.pipe.HSet(ctx, l.MailRecordsKey(p), string(f[1]), string(f[3]))
	return nil
}

func (l *loader) schedule(ctx context.Context, f [][]byte) error {
	account, id := signal.AccountID(f[0]), string(f[1])
	p, member := l.Partition(account), string(account)+" "+id
	l.schedules[member] = true
	l.pipe.HSet(ctx, l.SchedulesKey(p, account), id, string(f[2]))
	if due := scoreOf(f[3]); due > 0 {
		l.pipe.ZAdd(ctx, l.SchedulesDueKey(p), redis.Z{Score: due, Member: member})
	}
	if rounds := f[4:]; len(rounds) > 0 {
		l.pipe.HSet(ctx, l.ScheduleRoundsKey(p, account), values(rounds)...)
	}
	return nil
}

// scheduleDue stores when a schedule runs next, as it was when the logs ended.
func (l *loader) scheduleDue(ctx context.Context, f [][]byte) error {
	if l.schedules[string(f[1])] {
		key := l.SchedulesDueKey(l.Partition(signal.AccountID(f[0])))
		l.pipe.ZAdd(ctx, key, redis.Z{Score: scoreOf(f[2]), Member: string(f[1])})
	}
	return nil
}

func (l *loader) open(ctx context.Context, f [][]byte) error {
	from := partition(f[0])
	to, ok := l.to(from, f[1])
	if !ok {
		return nil
	}
	value, err := l.restamped(f[3], from, 2)
	if err != nil {
		return err
	}
	l.pipe.HSet(ctx, l.OpenKey(to), string(f[2]), string(value))
	return nil
}

// to returns the partition of what belongs to an account, which an unreadable value does not name.
func (l *loader) to(from int, account []byte) (p int, ok bool) {
	if len(account) > 0 {
		a := signal.AccountID(account)
		if _, known := l.accounts[a]; !known {
			l.accounts[a] = false
		}
		return l.Partition(a), true
	}
	if !l.same {
		l.summary.Unreadable++
	}
	return from, l.same
}

func (l *loader) runDue(ctx context.Context, f [][]byte) error {
	p := l.Partition(signal.AccountID(f[0]))
	l.pipe.ZAdd(ctx, l.RunsDueKey(p), redis.Z{Score: scoreOf(f[2]), Member: string(f[1])})
	return nil
}

func (l *loader) erase(ctx context.Context, f [][]byte) error {
	account := signal.AccountID(f[0])
	l.accounts[account] = true // it is being erased already
	l.pipe.HSet(ctx, l.EraseKey(l.Partition(account)), string(f[0]), string(f[1]))
	return nil
}

// audit is of all accounts of a partition, so another number of partitions waits for the next one.
func (l *loader) audit(ctx context.Context, f [][]byte) error {
	if l.same {
		l.pipe.HSet(ctx, l.AuditKey(partition(f[0])), string(f[1]), string(f[2]))
	}
	return nil
}

// The Merkle logs are those of the partitions. With another number the record begins again.

func (l *loader) leafHead(ctx context.Context, f [][]byte) error {
	if l.same {
		l.pipe.Set(ctx, l.LeafHeadKey(partition(f[0])), string(f[1]), 0)
	}
	return nil
}

func (l *loader) leafAccount(ctx context.Context, f [][]byte) error {
	if l.same {
		l.pipe.HSet(ctx, l.LeafAccountsKey(partition(f[0])), string(f[1]), string(f[2]))
	}
	return nil
}

func (l *loader) leaf(ctx context.Context, f [][]byte) error {
	if l.same {
		l.pipe.XAdd(ctx, &redis.XAddArgs{Stream: l.LeavesKey(partition(f[0])), ID: string(f[1]),
			Values: []any{"h", string(f[2])}})
	}
	return nil
}

func (l *loader) tile(ctx context.Context, f [][]byte) error {
	if l.same {
		l.pipe.Set(ctx, l.TileKey(partition(f[0]), partition(f[1]), parsed(f[2])), string(f[3]), 0)
	}
	return nil
}

// event stores an event. With another number of partitions only those without their effect are kept, so that
// no client takes a former position for one of the new log.
func (l *loader) event(ctx context.Context, f [][]byte) error {
	from := partition(f[0])
	at, valid := signal.ParsePosition(string(f[2]))
	if !valid {
		return ErrDamaged
	}
	if !l.same && at.Compare(l.positions[from]) <= 0 {
		return nil
	}
	if to, ok := l.to(from, f[1]); ok {
		l.append(ctx, l.EventsKey(to), l.moved(from, at), "h", string(f[3]), "d", string(f[4]))
	}
	return nil
}

func (l *loader) signal(ctx context.Context, f [][]byte) error {
	from := partition(f[0])
	to, ok := l.to(from, f[1])
	at, valid := signal.ParsePosition(string(f[2]))
	if !ok || !valid {
		return nil
	}
	head := f[3]
	if codec.IsClosing(head) {
		var err error
		if head, err = l.restamped(head, from, 2); err != nil {
			return err
		}
	}
	l.append(ctx, l.SignalsKey(to), l.moved(from, at), "h", string(head), "m", string(f[4]))
	return nil
}

// append appends an entry to a log.
func (l *loader) append(ctx context.Context, key string, at signal.Position, fields ...any) {
	end := l.newest[key]
	l.newest[key] = logEnd{at, end.added + 1}
	l.pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: at.String(), Values: fields})
}

// logEnd gives the restored logs the ends of those that were copied. Other partitions get ends that say that entries
// are missing.
func (l *loader) logEnd(ctx context.Context, f [][]byte) error {
	if p := partition(f[0]); l.same {
		l.setEnd(ctx, l.EventsKey(p), f[1:4])
		l.setEnd(ctx, l.SignalsKey(p), f[4:7])
	}
	return nil
}

// setEnd sets the newest id of a stream, how many entries were added, and the newest that was deleted.
func (l *loader) setEnd(ctx context.Context, key string, f [][]byte) {
	if string(f[0]) == (signal.Position{}).String() {
		return // there was no stream
	}
	if _, filled := l.newest[key]; !filled { // all entries were trimmed
		l.pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: string(f[0]), Values: []any{"h", ""}})
		l.pipe.XDel(ctx, key, string(f[0]))
	}
	l.pipe.Do(ctx, "XSETID", key, string(f[0]), "ENTRIESADDED", string(f[1]), "MAXDELETEDID", string(f[2]))
}

func (l *loader) outbox(ctx context.Context, f [][]byte) error {
	l.pipe.ZAdd(ctx, l.OutboxKey(), redis.Z{Score: scoreOf(f[1]), Member: string(f[0])})
	return nil
}

func (l *loader) account(ctx context.Context, f [][]byte) error {
	account := signal.AccountID(f[0])
	l.accounts[account] = true
	l.pipe.ZAdd(ctx, l.AccountsKey(), redis.Z{Score: scoreOf(f[1]), Member: string(f[0])})
	l.pipe.HSet(ctx, l.AccountKey(account), values(f[2:])...)
	for i := 2; i+1 < len(f); i += 2 {
		if string(f[i]) == "email" {
			l.pipe.Set(ctx, l.EmailKey(string(f[i+1])), string(f[0]), 0)
		}
	}
	return nil
}

func (l *loader) keysOf(ctx context.Context, f [][]byte) error {
	l.pipe.HSet(ctx, l.APIKeysOfKey(signal.AccountID(f[0])), values(f[1:])...)
	return nil
}

func (l *loader) apiKey(ctx context.Context, f [][]byte) error {
	l.pipe.HSet(ctx, l.APIKeyKey(string(f[0])), values(f[1:])...)
	return nil
}

// job stores a job. One that ran is queued again.
func (l *loader) job(ctx context.Context, f [][]byte) error {
	if l.expired(f[2]) {
		return nil
	}
	account, id := signal.AccountID(f[0]), signal.JobID(f[1])
	state, started, request, outcome := string(f[3]), string(f[4]), string(f[5]), f[6]
	if rest, ran := strings.CutPrefix(state, string(signal.JobRunning)+" "); ran {
		state = string(signal.JobQueued) + " " + rest
	}
	if len(outcome) > 0 {
		var err error
		if outcome, err = l.restamped(outcome, l.from(account), 1); err != nil {
			return err
		}
	}
	j, err := codec.DecodeJob(id, state, started, request, string(outcome))
	if err != nil {
		return err
	}
	p := l.Partition(account)
	key, all, with := l.JobKey(p, id), l.JobsOfKey(p, account), l.JobsWithKey(p, account, j.Status)
	fields := []any{codec.JobState, state, codec.JobRequest, request}
	if started != "" {
		fields = append(fields, codec.JobStarted, started)
	}
	if len(outcome) > 0 {
		fields = append(fields, codec.JobOutcome, string(outcome))
	}
	l.pipe.HSet(ctx, key, fields...)
	l.expire(ctx, key, f[2])
	z := redis.Z{Score: float64(j.CreatedAt.UnixMilli()), Member: string(id)}
	l.pipe.ZAdd(ctx, all, z)
	l.pipe.ZAdd(ctx, with, z)
	if j.Status == signal.JobQueued {
		l.pipe.XAdd(ctx, &redis.XAddArgs{Stream: l.JobQueueKey(p), Values: []any{"j", string(id), "a", string(account)}})
		return nil
	}
	ended := l.JobsEndedKey(p, account)
	l.pipe.ZAdd(ctx, ended, redis.Z{Score: float64(j.ExpiresAt.UnixMilli()), Member: string(id)})
	for _, k := range []string{all, with, ended} {
		l.pipe.PExpireAt(ctx, k, l.now.Add(jobsKept))
	}
	return nil
}

func (l *loader) reply(ctx context.Context, f [][]byte) error {
	if l.expired(f[2]) {
		return nil
	}
	account := signal.AccountID(f[0])
	value, err := l.restamped(f[3], l.from(account), 1)
	if err != nil {
		return err
	}
	key := l.ReplyKey(l.Partition(account), account, string(f[1]))
	l.pipe.Set(ctx, key, string(value), 0)
	l.expire(ctx, key, f[2])
	return nil
}

func (l *loader) text(ctx context.Context, f [][]byte) error {
	if l.expired(f[1]) {
		return nil
	}
	key := l.Named(string(f[0]))
	l.pipe.Set(ctx, key, string(f[2]), 0)
	l.expire(ctx, key, f[1])
	return nil
}

func (l *loader) hash(ctx context.Context, f [][]byte) error {
	l.pipe.HSet(ctx, l.Named(string(f[0])), values(f[1:])...)
	return nil
}

func (l *loader) sortedSet(ctx context.Context, f [][]byte) error {
	var list []redis.Z
	for i := 1; i+1 < len(f); i += 2 {
		list = append(list, redis.Z{Score: scoreOf(f[i]), Member: string(f[i+1])})
	}
	l.pipe.ZAdd(ctx, l.Named(string(f[0])), list...)
	return nil
}

func (l *loader) entry(ctx context.Context, f [][]byte) error {
	at, ok := signal.ParsePosition(string(f[1]))
	if !ok {
		return ErrDamaged
	}
	l.append(ctx, l.Named(string(f[0])), at, values(f[2:])...)
	return nil
}

func (l *loader) streamEnd(ctx context.Context, f [][]byte) error {
	l.setEnd(ctx, l.Named(string(f[0])), f[1:4])
	return nil
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
	// An account that was deleted while the backup was made has no record, and may have signals.
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
