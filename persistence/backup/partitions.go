package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	kindPosition kind = 4  // partition, position
	kindOpen     kind = 10 // partition, account, field, value

	// What is read together with the cut has the partition, the member and its score, or the field and its value.
	kindRunDue      kind = 11 // the member begins with the account
	kindErase       kind = 12 // the field is the account
	kindAudit       kind = 13
	kindLeafHead    kind = 14 // partition, value
	kindLeafAccount kind = 15 // the field is the account
	kindScheduleDue kind = 16 // the member begins with the account
	kindLeafMonth   kind = 39 // the field begins with the account
)

// positions come before the deliveries.
var positions = section{
	keys: []string{"{pNN}:position"},
	save: func(ctx context.Context, s *source) error {
		for p := range s.Partitions() {
			value, err := s.RDB.Get(ctx, s.PositionKey(p)).Result()
			if errors.Is(err, redis.Nil) {
				continue
			}
			if err == nil {
				err = s.add(kindPosition, p, value)
			}
			if err != nil {
				return err
			}
		}
		return nil
	},
	records: []record{{kind: kindPosition, fields: 2, ofPartition: true, load: loadPosition}},
}

func loadPosition(ctx context.Context, t *target, f fields) error {
	at, err := f.position(1)
	t.positions[f.partition()] = at
	if t.same && err == nil {
		t.pipe.Set(ctx, t.PositionKey(f.partition()), f.text(1), 0)
	}
	return err
}

// partitions are where the logs end, and what has to agree with that.
var partitions = section{
	keys: []string{"{pNN}:open", "{pNN}:runsdue", "{pNN}:schedulesdue", "{pNN}:erase", "{pNN}:audit", "{pNN}:leafhead",
		"{pNN}:leafaccounts", "{pNN}:leafmonths"},
	save: func(ctx context.Context, s *source) error {
		for p := range s.cuts {
			if err := savePartition(ctx, s, p); err != nil {
				return fmt.Errorf("partition %d: %w", p, err)
			}
		}
		return nil
	},
	records: []record{
		{kind: kindOpen, fields: 4, ofPartition: true, load: loadOpen},
		{kind: kindRunDue, fields: 3, ofPartition: true,
			load: toSorted(func(t *target, f fields) string { return t.RunsDueKey(t.of(accountIn(f))) }, 1)},
		{kind: kindErase, fields: 3, ofPartition: true, load: loadErase},
		{kind: kindAudit, fields: 3, ofPartition: true, sameOnly: true, // it is of all accounts of a partition
			load: toHash(func(t *target, f fields) string { return t.AuditKey(f.partition()) }, 1)},
		{kind: kindLeafHead, fields: 2, ofPartition: true, sameOnly: true,
			load: toString(func(t *target, f fields) string { return t.LeafHeadKey(f.partition()) }, 1)},
		{kind: kindLeafAccount, fields: 3, ofPartition: true, sameOnly: true,
			load: toHash(func(t *target, f fields) string { return t.LeafAccountsKey(t.of(f.account(1))) }, 1)},
		{kind: kindLeafMonth, fields: 3, ofPartition: true, sameOnly: true,
			load: toHash(func(t *target, f fields) string { return t.LeafMonthsKey(t.of(accountIn(f))) }, 1)},
		{kind: kindScheduleDue, fields: 3, ofPartition: true, load: loadScheduleDue},
	},
}

// accountIn returns the account that a member begins with.
func accountIn(f fields) signal.AccountID {
	account, _, _ := strings.Cut(f.text(1), " ")
	return signal.AccountID(account)
}

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

// savePartition saves the open signals and what else agrees with the logs of partition p.
func savePartition(ctx context.Context, s *source, p int) error {
	open, err := readOpen(ctx, s.logs, p)
	if err != nil {
		return err
	}
	for range maxCuts {
		r, err := readPartition(ctx, s, p)
		if err != nil {
			return err
		}
		exact, err := open.advance(ctx, &r.cut)
		if err != nil {
			return err
		}
		if exact {
			s.cuts[p] = r.cut
			return errors.Join(addOpen(s, p, open.values), addPartition(s, p, r))
		}
	}
	return contentError{errors.New("open signals change faster than they can be read: repeat the backup")}
}

// reading is what was read of a partition at one moment, except for its open signals.
type reading struct {
	cut
	others map[kind]redis.Cmder
}

func readPartition(ctx context.Context, s *source, p int) (*reading, error) {
	pipe := s.RDB.TxPipeline()
	events, signals := pipe.XInfoStream(ctx, s.EventsKey(p)), pipe.XInfoStream(ctx, s.SignalsKey(p))
	at, head := pipe.Time(ctx), pipe.Get(ctx, s.LeafHeadKey(p))
	others := map[kind]redis.Cmder{
		kindLeafHead:    head,
		kindLeafAccount: pipe.HGetAll(ctx, s.LeafAccountsKey(p)),
		kindLeafMonth:   pipe.HGetAll(ctx, s.LeafMonthsKey(p)),
		kindAudit:       pipe.HGetAll(ctx, s.AuditKey(p)),
		kindErase:       pipe.HGetAll(ctx, s.EraseKey(p)),
		kindRunDue:      pipe.ZRangeWithScores(ctx, s.RunsDueKey(p), 0, -1),
		kindScheduleDue: pipe.ZRangeWithScores(ctx, s.SchedulesDueKey(p), 0, -1),
	}
	commands := slices.AppendSeq([]redis.Cmder{events, signals, at}, maps.Values(others))
	if err := executeWithStreams(ctx, pipe, commands...); err != nil {
		return nil, err
	}
	if at.Val().IsZero() {
		return nil, errors.New("read partition: no answer")
	}
	parsed, err := codec.ParseLogHead(head.Val())
	return &reading{cut{at.Val(), infoOf(events), infoOf(signals), parsed}, others}, err
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

// addOpen adds the open signals of partition p.
func addOpen(s *source, p int, values map[string]string) error {
	for field, value := range values {
		o, _, err := codec.DecodeOpen([]byte(field), []byte(value))
		if err != nil {
			s.Log.Error("an open signal is not readable", "component", "persistence", "partition", p, "err", err)
		}
		if err := s.add(kindOpen, p, o.Account, field, value); err != nil {
			return err
		}
	}
	return nil
}

// addPartition adds what was read of partition p.
func addPartition(s *source, p int, r *reading) (err error) {
	for k, cmd := range r.others {
		switch cmd := cmd.(type) {
		case *redis.StringCmd:
			if cmd.Val() != "" {
				err = s.add(k, p, cmd.Val())
			}
		case *redis.MapStringStringCmd:
			err = s.addHash(k, cmd.Val(), p)
		case *redis.ZSliceCmd:
			for _, z := range cmd.Val() {
				err = errors.Join(err, s.add(k, p, member(z), z.Score))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func loadOpen(ctx context.Context, t *target, f fields) error {
	from := f.partition()
	to, ok := t.to(from, f.account(1))
	if !ok {
		return nil
	}
	value, err := t.restamped(f[3], from, 2)
	if err == nil {
		t.pipe.HSet(ctx, t.OpenKey(to), f.text(2), string(value))
	}
	return err
}

// loadScheduleDue stores when a schedule runs next, as it was when the logs ended.
func loadScheduleDue(ctx context.Context, t *target, f fields) error {
	if t.schedules[f.text(1)] {
		t.pipe.ZAdd(ctx, t.SchedulesDueKey(t.Partition(accountIn(f))), redis.Z{Score: f.score(2), Member: f.text(1)})
	}
	return nil
}

// loadErase begins the erasing of an account again: records that were read before their erasing are in the backup.
func loadErase(ctx context.Context, t *target, f fields) error {
	account := f.account(1)
	t.accounts[account] = true // it is being erased already
	t.pipe.HSet(ctx, t.EraseKey(t.Partition(account)), f.text(1), persistence.NewErasing(t.now))
	return nil
}
