package backup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// cut is where the logs of a partition end in the backup.
type cut struct {
	at             time.Time // by Redis' clock
	events, signal redisclient.StreamInfo
	head           codec.LogHead
}

// last is the id of the newest event.
func (c *cut) last() signal.Position { return c.events.Generated }

// after reports whether what has the stamp p has changed after the cut.
func (c *cut) after(p signal.Position) bool {
	return p.Compare(c.last()) > 0 && p.MS >= c.at.UnixMilli()
}

// savePositions comes before the deliveries.
func (s *saver) savePositions(ctx context.Context) error {
	for p := range s.Partitions() {
		value, err := s.RDB.Get(ctx, s.PositionKey(p)).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.add(kindPosition, number(p), []byte(value)); err != nil {
			return err
		}
	}
	return nil
}

// savePartitions decides where the logs end, and saves what has to agree with them.
func (s *saver) savePartitions(ctx context.Context) error {
	for p := range s.cuts {
		if err := s.savePartition(ctx, p); err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
	}
	return nil
}

// savePartition saves the open signals and what else agrees with the logs of partition p.
func (s *saver) savePartition(ctx context.Context, p int) error {
	open, err := readOpen(ctx, s.logs, p)
	if err != nil {
		return err
	}
	for range maxCuts {
		r, err := s.readPartition(ctx, p)
		if err != nil {
			return err
		}
		exact, err := open.advance(ctx, &r.cut)
		if err != nil {
			return err
		}
		if exact {
			s.cuts[p] = r.cut
			if err := s.addOpen(p, open.values); err != nil {
				return err
			}
			return s.addPartition(p, r)
		}
	}
	return contentError{errors.New("open signals change faster than they can be read: repeat the backup")}
}

// reading is what was read of a partition at one moment, except for its open signals.
type reading struct {
	cut
	leafHead             string
	leaves, audit, erase map[string]string
	runs, schedules      []redis.Z
}

func (s *saver) readPartition(ctx context.Context, p int) (*reading, error) {
	pipe := s.RDB.TxPipeline()
	events, signals := pipe.XInfoStream(ctx, s.EventsKey(p)), pipe.XInfoStream(ctx, s.SignalsKey(p))
	at, head := pipe.Time(ctx), pipe.Get(ctx, s.LeafHeadKey(p))
	leaves, audit := pipe.HGetAll(ctx, s.LeafAccountsKey(p)), pipe.HGetAll(ctx, s.AuditKey(p))
	erase := pipe.HGetAll(ctx, s.EraseKey(p))
	runs := pipe.ZRangeWithScores(ctx, s.RunsDueKey(p), 0, -1)
	schedules := pipe.ZRangeWithScores(ctx, s.SchedulesDueKey(p), 0, -1)
	if err := executeWithStreams(ctx, pipe, events, signals, at, head, leaves, audit, erase, runs, schedules); err != nil {
		return nil, err
	}
	if at.Val().IsZero() {
		return nil, errors.New("read partition: no answer")
	}
	parsed, err := codec.ParseLogHead(head.Val())
	if err != nil {
		return nil, err
	}
	return &reading{cut{at.Val(), infoOf(events), infoOf(signals), parsed}, head.Val(),
		leaves.Val(), audit.Val(), erase.Val(), runs.Val(), schedules.Val()}, nil
}

// addOpen adds the open signals of partition p.
func (s *saver) addOpen(p int, values map[string]string) error {
	for field, value := range values {
		o, _, err := codec.DecodeOpen([]byte(field), []byte(value))
		if err != nil {
			s.Log.Error("an open signal is not readable", "component", "persistence", "partition", p, "err", err)
		}
		if err := s.add(kindOpen, texts(strconv.Itoa(p), string(o.Account), field, value)...); err != nil {
			return err
		}
	}
	return nil
}

// addPartition adds what was read of partition p.
func (s *saver) addPartition(p int, r *reading) (err error) {
	add := func(k kind, fields ...[]byte) {
		if err == nil {
			err = s.add(k, fields...)
		}
	}
	for _, z := range r.runs {
		account, _, _ := strings.Cut(member(z), " ")
		add(kindRunDue, texts(account, member(z), score(z))...)
	}
	for _, z := range r.schedules {
		account, _, _ := strings.Cut(member(z), " ")
		add(kindScheduleDue, texts(account, member(z), score(z))...)
	}
	for account, value := range r.erase {
		add(kindErase, texts(account, value)...)
	}
	for field, value := range r.audit {
		add(kindAudit, texts(strconv.Itoa(p), field, value)...)
	}
	if r.leafHead != "" {
		add(kindLeafHead, number(p), []byte(r.leafHead))
	}
	for account, value := range r.leaves {
		add(kindLeafAccount, texts(strconv.Itoa(p), account, value)...)
	}
	return err
}

// executeWithStreams is redisclient.Execute for a pipeline of the given commands, some of which look at streams that
// need not exist.
func executeWithStreams(ctx context.Context, pipe redis.Pipeliner, commands ...redis.Cmder) error {
	if err := redisclient.Execute(ctx, pipe); err != nil && !redis.HasErrorPrefix(err, "no such key") {
		return err
	}
	for _, c := range commands {
		if err := c.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "no such key") {
			return err
		}
	}
	return nil
}

// infoOf returns the state of a stream, which need not exist.
func infoOf(c *redis.XInfoStreamCmd) redisclient.StreamInfo {
	v := c.Val()
	if v == nil || c.Err() != nil {
		return redisclient.StreamInfo{}
	}
	info := redisclient.StreamInfo{Exists: true, Length: v.Length, Added: v.EntriesAdded}
	info.Generated, _ = signal.ParsePosition(v.LastGeneratedID)
	info.MaxDeleted, _ = signal.ParsePosition(v.MaxDeletedEntryID)
	return info
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

func (l *loader) runDue(ctx context.Context, f [][]byte) error {
	p := l.of(signal.AccountID(f[0]))
	l.pipe.ZAdd(ctx, l.RunsDueKey(p), redis.Z{Score: scoreOf(f[2]), Member: string(f[1])})
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

// erase begins the erasing of an account again: records that were read before their erasing are in the backup.
func (l *loader) erase(ctx context.Context, f [][]byte) error {
	account := signal.AccountID(f[0])
	l.accounts[account] = true // it is being erased already
	l.pipe.HSet(ctx, l.EraseKey(l.Partition(account)), string(f[0]), persistence.NewErasing(l.now))
	return nil
}

// audit is of all accounts of a partition, so another number of partitions waits for the next one.
func (l *loader) audit(ctx context.Context, f [][]byte) error {
	if l.same {
		l.pipe.HSet(ctx, l.AuditKey(partition(f[0])), string(f[1]), string(f[2]))
	}
	return nil
}
