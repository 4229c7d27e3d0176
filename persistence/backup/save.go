package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	// accountsAtOnce is how many accounts are read in one round trip.
	accountsAtOnce = 100
	// deliveriesAtOnce is how many deliveries are, with their payloads.
	deliveriesAtOnce = 50
	// scanCount is the COUNT of a scan, and how many fields or entries a record or a read has.
	scanCount = 1000
)

// header is the first record.
type header struct {
	CreatedAt  time.Time `json:"created_at"`
	Build      string    `json:"build"`
	Partitions int       `json:"partitions"`
	Formats    int       `json:"formats"` // codec.Version
}

// Summary is what a backup has.
type Summary struct {
	CreatedAt  time.Time `json:"created_at"`
	Build      string    `json:"build"` // the version of agentsignal that made it
	Partitions int       `json:"partitions"`

	Accounts   int `json:"accounts"`
	APIKeys    int `json:"api_keys"`
	Webhooks   int `json:"webhooks"`
	Deliveries int `json:"pending_deliveries"`
	Schedules  int `json:"schedules"`
	Jobs       int `json:"jobs"`
	Events     int `json:"events"`
	Entries    int `json:"signal_log_entries"`
	Open       int `json:"open_signals"`
	Leaves     int `json:"record_leaves"`

	// SealedByOthers is how many webhooks have a secret that the given keys do not open.
	SealedByOthers int `json:"secrets_of_other_keys"`
	// Unreadable is how many entries have no account and were left out, because the number of partitions differs.
	Unreadable int `json:"unreadable_entries"`
}

// count counts a record.
func (s *Summary) count(k kind) {
	counts := map[kind]*int{kindAccount: &s.Accounts, kindAPIKey: &s.APIKeys, kindWebhook: &s.Webhooks,
		kindDelivery: &s.Deliveries, kindSchedule: &s.Schedules, kindJob: &s.Jobs, kindEvent: &s.Events,
		kindSignal: &s.Entries, kindOpen: &s.Open, kindLeaf: &s.Leaves}
	if n := counts[k]; n != nil {
		*n++
	}
}

// Opens reports whether the secret of a webhook can be decrypted.
type Opens func(webhook signal.WebhookID, sealed []byte) bool

// check counts w if opens cannot decrypt a secret of it. Without opens nothing is counted.
func (s *Summary) check(w *delivery.Webhook, opens Opens) {
	if opens != nil && (!opens(w.ID, w.Secret) || w.PreviousSecret != nil && !opens(w.ID, w.PreviousSecret)) {
		s.SealedByOthers++
	}
}

// saver writes a backup.
type saver struct {
	*redisclient.Client
	w       *writer
	opens   Opens
	summary Summary
	cuts    []cut
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

// Save writes a backup of the installation of c to w, while its nodes run. See the package comment for
// what it has. opens may be nil. build is the version of this program.
func Save(ctx context.Context, c *redisclient.Client, w io.Writer, build string, opens Opens) (Summary, error) {
	out, err := newWriter(w)
	if err != nil {
		return Summary{}, err
	}
	s := &saver{Client: c, w: out, opens: opens, cuts: make([]cut, c.Partitions()),
		summary: Summary{CreatedAt: c.Now().Truncate(time.Second), Build: build, Partitions: c.Partitions()}}
	h := header{s.summary.CreatedAt, build, c.Partitions(), codec.Version}
	text, err := json.Marshal(h)
	if err != nil {
		return Summary{}, err
	}
	if err := s.add(kindHeader, text); err != nil {
		return Summary{}, err
	}
	// The order matters: see the package comment.
	for _, section := range []func(context.Context) error{s.saveCheckpoints, s.savePositions, s.saveSettings, s.saveMails,
		s.savePartitions, s.saveEvents, s.saveSignals, s.saveLeaves, s.saveLogEnds, s.saveOutbox, s.saveAccounts,
		s.saveMarket, s.saveScanned} {
		err := section(ctx)
		if err == nil {
			err = s.w.end()
		}
		if err != nil {
			return Summary{}, redisclient.Failed(err, "back up")
		}
	}
	return s.summary, out.close()
}

// add writes a record.
func (s *saver) add(k kind, fields ...[]byte) error {
	s.summary.count(k)
	return s.w.add(k, fields...)
}

// texts returns fields.
func texts(list ...string) [][]byte {
	fields := make([][]byte, len(list))
	for i, t := range list {
		fields[i] = []byte(t)
	}
	return fields
}

// pairs returns the fields and values of a hash behind others, in the order of their names.
func pairs(first []string, hash map[string]string) [][]byte {
	names := make([]string, 0, len(hash))
	for name := range hash {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		first = append(first, name, hash[name])
	}
	return texts(first...)
}

func score(z redis.Z) string { return strconv.FormatFloat(z.Score, 'f', -1, 64) }

func member(z redis.Z) string { m, _ := z.Member.(string); return m }

// saveCheckpoints comes before the logs that they are of.
func (s *saver) saveCheckpoints(ctx context.Context) error {
	signed, err := s.RDB.HGetAll(ctx, s.CountersignedKey(0)).Result()
	if err != nil {
		return err
	}
	for witness, value := range signed {
		if err := s.add(kindCountersigned, texts(witness, value)...); err != nil {
			return err
		}
	}
	value, err := s.RDB.Get(ctx, s.CheckpointKey(0)).Result()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.add(kindCheckpoint, []byte(value))
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

// saveSettings saves the webhooks and schedules of all accounts.
func (s *saver) saveSettings(ctx context.Context) error {
	accounts, err := s.RDB.ZRange(ctx, s.AccountsKey(), 0, -1).Result()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(accounts, accountsAtOnce) {
		pipe := s.RDB.Pipeline()
		var hooks, health, schedules, rounds []*redis.MapStringStringCmd
		for _, a := range group {
			account := signal.AccountID(a)
			p := s.Partition(account)
			hooks = append(hooks, pipe.HGetAll(ctx, s.WebhooksKey(p, account)))
			health = append(health, pipe.HGetAll(ctx, s.WebhookHealthKey(p, account)))
			schedules = append(schedules, pipe.HGetAll(ctx, s.SchedulesKey(p, account)))
			rounds = append(rounds, pipe.HGetAll(ctx, s.ScheduleRoundsKey(p, account)))
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return err
		}
		for i, a := range group {
			account := signal.AccountID(a)
			for id, record := range hooks[i].Val() {
				w := deliveries.Copied{Account: account, ID: signal.WebhookID(id), Record: record, Health: health[i].Val()[id]}
				if err := s.saveWebhook(ctx, &w); err != nil {
					return err
				}
			}
			if err := s.saveSchedules(ctx, account, schedules[i].Val(), rounds[i].Val()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *saver) saveSchedules(ctx context.Context, account signal.AccountID, records, rounds map[string]string) error {
	for id, record := range records {
		due, err := s.RDB.ZScore(ctx, s.SchedulesDueKey(s.Partition(account)), string(account)+" "+id).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		own := map[string]string{}
		for field, value := range rounds {
			if strings.HasPrefix(field, id+" ") {
				own[field] = value
			}
		}
		first := []string{string(account), id, record, score(redis.Z{Score: due})}
		if err := s.add(kindSchedule, pairs(first, own)...); err != nil {
			return err
		}
	}
	return nil
}

// saveWebhook saves a webhook with its pending deliveries.
func (s *saver) saveWebhook(ctx context.Context, w *deliveries.Copied) error {
	decoded, err := w.Webhook()
	if err != nil {
		return err
	}
	s.summary.check(&decoded, s.opens)
	if err := s.add(kindWebhook, texts(string(w.Account), string(w.ID), w.Record, w.Health)...); err != nil {
		return err
	}
	p := s.Partition(w.Account)
	pending, err := s.RDB.ZRangeWithScores(ctx, s.PendingKey(p, w.ID), 0, -1).Result()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(pending, deliveriesAtOnce) {
		if err := s.saveDeliveries(ctx, p, w, group); err != nil {
			return err
		}
	}
	waits := s.WaitsKey(p, w.ID)
	pipe := s.RDB.Pipeline()
	until, all := pipe.PExpireTime(ctx, waits), pipe.HGetAll(ctx, waits)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return err
	}
	for field, value := range all.Val() {
		if err := s.add(kindWait, texts(string(w.Account), string(w.ID), untilText(until), field, value)...); err != nil {
			return err
		}
	}
	return nil
}

// untilText returns when a key expires, in ms; 0 if it does not.
func untilText(until *redis.DurationCmd) string {
	return strconv.FormatInt(max(0, until.Val().Milliseconds()), 10)
}

// saveDeliveries saves the deliveries of due that are still pending.
func (s *saver) saveDeliveries(ctx context.Context, p int, w *deliveries.Copied, due []redis.Z) error {
	ids := make([]string, len(due))
	for i, z := range due {
		ids[i] = member(z)[:min(16, len(member(z)))]
	}
	records, err := s.RDB.HMGet(ctx, s.DeliveriesKey(p, w.ID), ids...).Result()
	if err != nil {
		return err
	}
	bodyKeys := make([]string, len(due))
	for i, r := range records {
		record, _ := r.(string)
		bodyKeys[i], _ = deliveries.BodyKeyOf(record)
	}
	bodies, err := s.RDB.HMGet(ctx, s.BodiesKey(p), bodyKeys...).Result()
	if err != nil {
		return err
	}
	for i, z := range due {
		record, _ := records[i].(string)
		body, found := bodies[i].(string)
		if _, pending := deliveries.BodyKeyOf(record); !pending || !found {
			continue // it has ended since
		}
		fields := texts(string(w.Account), string(w.ID), member(z), score(z), record, body)
		if err := s.add(kindDelivery, fields...); err != nil {
			return err
		}
	}
	return nil
}

func (s *saver) saveMails(ctx context.Context) error {
	for p := range s.Partitions() {
		pipe := s.RDB.TxPipeline()
		due, records := pipe.ZRangeWithScores(ctx, s.MailsKey(p), 0, -1), pipe.HGetAll(ctx, s.MailRecordsKey(p))
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return err
		}
		for _, z := range due.Val() {
			record := records.Val()[member(z)]
			account := deliveries.MailAccount(member(z), record)
			if account == "" {
				continue
			}
			if err := s.add(kindMail, texts(string(account), member(z), score(z), record)...); err != nil {
				return err
			}
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

// savePartition reads everything at one moment. It takes Redis a millisecond for some thousand open signals.
func (s *saver) savePartition(ctx context.Context, p int) error {
	pipe := s.RDB.TxPipeline()
	events, signals := pipe.XInfoStream(ctx, s.EventsKey(p)), pipe.XInfoStream(ctx, s.SignalsKey(p))
	at := pipe.Time(ctx)
	open, head := pipe.HGetAll(ctx, s.OpenKey(p)), pipe.Get(ctx, s.LeafHeadKey(p))
	leaves, audit := pipe.HGetAll(ctx, s.LeafAccountsKey(p)), pipe.HGetAll(ctx, s.AuditKey(p))
	erase := pipe.HGetAll(ctx, s.EraseKey(p))
	runs, schedules := pipe.ZRangeWithScores(ctx, s.RunsDueKey(p), 0, -1), pipe.ZRangeWithScores(ctx, s.SchedulesDueKey(p), 0, -1)
	err := executeWithStreams(ctx, pipe, events, signals, at, open, head, leaves, audit, erase, runs, schedules)
	if err != nil {
		return err
	}
	c := &s.cuts[p]
	c.at = at.Val()
	if c.at.IsZero() {
		return errors.New("read partition: no answer")
	}
	c.events, c.signal = infoOf(events), infoOf(signals)
	if c.head, err = codec.ParseLogHead(head.Val()); err != nil {
		return err
	}
	add := func(k kind, fields ...[]byte) {
		if err == nil {
			err = s.add(k, fields...)
		}
	}
	for field, value := range open.Val() {
		o, _, failed := codec.DecodeOpen([]byte(field), []byte(value))
		if failed != nil {
			s.Log.Error("an open signal is not readable", "component", "persistence", "partition", p, "err", failed)
		}
		add(kindOpen, texts(strconv.Itoa(p), string(o.Account), field, value)...)
	}
	for _, z := range runs.Val() {
		account, _, _ := strings.Cut(member(z), " ")
		add(kindRunDue, texts(account, member(z), score(z))...)
	}
	for _, z := range schedules.Val() {
		account, _, _ := strings.Cut(member(z), " ")
		add(kindScheduleDue, texts(account, member(z), score(z))...)
	}
	for account, value := range erase.Val() {
		add(kindErase, texts(account, value)...)
	}
	for field, value := range audit.Val() {
		add(kindAudit, texts(strconv.Itoa(p), field, value)...)
	}
	if head.Val() != "" {
		add(kindLeafHead, number(p), []byte(head.Val()))
	}
	for account, value := range leaves.Val() {
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
	info := redisclient.StreamInfo{Exists: true, Added: v.EntriesAdded}
	info.Generated, _ = signal.ParsePosition(v.LastGeneratedID)
	info.MaxDeleted, _ = signal.ParsePosition(v.MaxDeletedEntryID)
	return info
}

func (s *saver) saveEvents(ctx context.Context) error {
	return s.saveLogs(ctx, kindEvent, s.EventsKey, codec.EventAccount,
		func(c *cut) signal.Position { return c.events.Generated })
}

func (s *saver) saveSignals(ctx context.Context) error {
	return s.saveLogs(ctx, kindSignal, s.SignalsKey, codec.RecordAccount,
		func(c *cut) signal.Position { return c.signal.Generated })
}

// saveLogs saves a log of all partitions up to its end, in the order of the positions, so that they can become the
// logs of any other number of partitions.
func (s *saver) saveLogs(ctx context.Context, k kind, key func(p int) string, accountOf func(header []byte) []byte,
	end func(*cut) signal.Position) error {
	var sources []*logSource
	for p := range s.cuts {
		sources = append(sources, &logSource{c: s.Client, p: p, key: key(p), end: end(&s.cuts[p])})
	}
	return merged(ctx, sources, func(p int, e *redisclient.Entry) error {
		account := ""
		if raw := accountOf(e.Header); raw != nil {
			d := codec.NewDecoder(raw)
			account = d.ID("acc_")
		}
		return s.add(k, number(p), []byte(account), []byte(e.Position.String()), e.Header, e.Body)
	})
}

// saveLeaves saves the Merkle logs up to the heads that were saved.
func (s *saver) saveLeaves(ctx context.Context) error {
	for p := range s.cuts {
		head := s.cuts[p].head
		if head.Size == 0 {
			continue
		}
		source := &logSource{c: s.Client, p: p, key: s.LeavesKey(p), end: head.UpTo}
		err := merged(ctx, []*logSource{source}, func(_ int, e *redisclient.Entry) error {
			return s.add(kindLeaf, number(p), []byte(e.Position.String()), e.Header)
		})
		if err != nil {
			return err
		}
		if err := s.saveTiles(ctx, p, head.Size); err != nil {
			return err
		}
	}
	return nil
}

// saveTiles saves the tiles of a Merkle log with so many leaves.
func (s *saver) saveTiles(ctx context.Context, p int, size int64) error {
	const width, hashBytes = 256, 32
	for level := 0; size > 0; level++ {
		for n := int64(0); n*width < size; n++ {
			bytes := min(width, size-n*width) * hashBytes
			tile, err := s.RDB.GetRange(ctx, s.TileKey(p, level, n), 0, bytes-1).Result()
			if err != nil {
				return err
			}
			if int64(len(tile)) != bytes {
				return fmt.Errorf("tile %d of level %d has %d bytes, want %d", n, level, len(tile), bytes)
			}
			if err := s.add(kindTile, number(p), number(level), number(n), []byte(tile)); err != nil {
				return err
			}
		}
		size /= width
	}
	return nil
}

// saveLogEnds saves what a restored stream cannot show by its entries.
func (s *saver) saveLogEnds(ctx context.Context) error {
	for p := range s.cuts {
		fields := texts(strconv.Itoa(p))
		for _, info := range []redisclient.StreamInfo{s.cuts[p].events, s.cuts[p].signal} {
			fields = append(fields, endOf(info)...)
		}
		if err := s.add(kindLogEnd, fields...); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func endOf(info redisclient.StreamInfo) [][]byte {
	return [][]byte{[]byte(info.Generated.String()), number(info.Added), []byte(info.MaxDeleted.String())}
}

// saveOutbox comes after the logs and before the accounts.
func (s *saver) saveOutbox(ctx context.Context) error {
	outbox, err := s.RDB.ZRangeWithScores(ctx, s.OutboxKey(), 0, -1).Result()
	for _, z := range outbox {
		if err == nil {
			err = s.add(kindOutbox, texts(member(z), score(z))...)
		}
	}
	return err
}

// saveAccounts saves accounts with their keys and jobs.
func (s *saver) saveAccounts(ctx context.Context) error {
	accounts, err := s.RDB.ZRangeWithScores(ctx, s.AccountsKey(), 0, -1).Result()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(accounts, accountsAtOnce) {
		var records, keys []*redis.MapStringStringCmd
		var jobs []*redis.StringSliceCmd
		pipe := s.RDB.Pipeline()
		for _, z := range group {
			account := signal.AccountID(member(z))
			records = append(records, pipe.HGetAll(ctx, s.AccountKey(account)))
			keys = append(keys, pipe.HGetAll(ctx, s.APIKeysOfKey(account)))
			jobs = append(jobs, pipe.ZRange(ctx, s.JobsOfKey(s.Partition(account), account), 0, -1))
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return err
		}
		for i, z := range group {
			if len(records[i].Val()) == 0 {
				continue // deleted since
			}
			account := signal.AccountID(member(z))
			if err := s.add(kindAccount, pairs([]string{string(account), score(z)}, records[i].Val())...); err != nil {
				return err
			}
			if err := s.saveKeys(ctx, account, keys[i].Val()); err != nil {
				return err
			}
			if err := s.saveJobs(ctx, account, jobs[i].Val()); err != nil {
				return err
			}
		}
	}
	return nil
}

// saveKeys saves the API keys of an account, by their names and ids.
func (s *saver) saveKeys(ctx context.Context, account signal.AccountID, index map[string]string) error {
	kept := map[string]string{}
	for field, digest := range index {
		id, ok := strings.CutPrefix(field, "id:")
		if !ok {
			continue
		}
		record, err := s.RDB.HGetAll(ctx, s.APIKeyKey(digest)).Result()
		if err != nil {
			return err
		}
		if len(record) == 0 {
			continue // revoked since
		}
		kept[field], kept["name:"+record["name"]] = digest, id
		if err := s.add(kindAPIKey, pairs([]string{digest}, record)...); err != nil {
			return err
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return s.add(kindKeysOf, pairs([]string{string(account)}, kept)...)
}

// saveJobs saves jobs of an account. One that has ended after the cut is one that runs.
func (s *saver) saveJobs(ctx context.Context, account signal.AccountID, ids []string) error {
	p := s.Partition(account)
	for group := range slices.Chunk(ids, accountsAtOnce) {
		var records []*redis.SliceCmd
		var until []*redis.DurationCmd
		pipe := s.RDB.TxPipeline()
		for _, id := range group {
			key := s.JobKey(p, signal.JobID(id))
			records = append(records, pipe.HMGet(ctx, key, codec.JobState, codec.JobStarted, codec.JobRequest, codec.JobOutcome))
			until = append(until, pipe.PExpireTime(ctx, key))
		}
		if err := redisclient.Execute(ctx, pipe); err != nil {
			return err
		}
		for i, id := range group {
			var v [4]string
			for f := range v {
				v[f], _ = records[i].Val()[f].(string)
			}
			if v[0] == "" {
				continue // forgotten since
			}
			expires := untilText(until[i])
			if at, _, err := codec.CutStamp([]byte(v[3])); err == nil && s.cuts[p].after(at) {
				_, attempt, _ := strings.Cut(v[0], " ")
				v[0], v[3], expires = string(signal.JobRunning)+" "+attempt, "", "0"
			}
			if err := s.add(kindJob, texts(string(account), id, expires, v[0], v[1], v[2], v[3])...); err != nil {
				return err
			}
		}
	}
	return nil
}

// saveMarket saves the state of the feeder, before the bars that it has stored.
func (s *saver) saveMarket(ctx context.Context) error {
	for _, key := range []string{s.MarketStateKey(), s.MarketAssetsKey(), s.MarketLiveKey(), s.MarketKeptForKey()} {
		if err := s.saveHash(ctx, key); err != nil {
			return err
		}
	}
	if err := s.saveSortedSet(ctx, s.MarketUsedKey()); err != nil {
		return err
	}
	for _, tf := range signal.Timeframes {
		// The stream last: its bars may be newer than those of the assets.
		pipe := s.RDB.TxPipeline()
		bars, info := pipe.HGetAll(ctx, s.MarketOutcomeBarsKey(tf)), pipe.XInfoStream(ctx, s.MarketOutcomesKey(tf))
		if err := executeWithStreams(ctx, pipe, bars, info); err != nil {
			return err
		}
		if len(bars.Val()) > 0 {
			name := redisclient.Former(s.MarketOutcomeBarsKey(tf))
			if err := s.add(kindHash, pairs([]string{name}, bars.Val())...); err != nil {
				return err
			}
		}
		if err := s.saveStream(ctx, s.MarketOutcomesKey(tf), infoOf(info)); err != nil {
			return err
		}
	}
	info, err := s.ReadInfo(ctx, s.MarketNewsKey())
	if err != nil {
		return err
	}
	return s.saveStream(ctx, s.MarketNewsKey(), info)
}

func (s *saver) saveHash(ctx context.Context, key string) error {
	for cursor := uint64(0); ; {
		found, next, err := s.RDB.HScan(ctx, key, cursor, "", scanCount).Result()
		if err != nil {
			return err
		}
		if len(found) > 0 {
			if err := s.add(kindHash, texts(append([]string{redisclient.Former(key)}, found...)...)...); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

func (s *saver) saveSortedSet(ctx context.Context, key string) error {
	all, err := s.RDB.ZRangeWithScores(ctx, key, 0, -1).Result()
	if err != nil {
		return err
	}
	for group := range slices.Chunk(all, scanCount) {
		fields := []string{redisclient.Former(key)}
		for _, z := range group {
			fields = append(fields, score(z), member(z))
		}
		if err := s.add(kindSortedSet, texts(fields...)...); err != nil {
			return err
		}
	}
	return nil
}

// saveStream saves a stream up to the end that info has.
func (s *saver) saveStream(ctx context.Context, key string, info redisclient.StreamInfo) error {
	if !info.Exists {
		return nil
	}
	name, start := redisclient.Former(key), "-"
	for {
		page, err := s.RDB.XRangeN(ctx, key, start, info.Generated.String(), scanCount).Result()
		if err != nil {
			return err
		}
		for _, m := range page {
			values := map[string]string{}
			for field, v := range m.Values {
				values[field], _ = v.(string)
			}
			if err := s.add(kindEntry, pairs([]string{name, m.ID}, values)...); err != nil {
				return err
			}
		}
		if len(page) < scanCount {
			return s.add(kindStreamEnd, append([][]byte{[]byte(name)}, endOf(info)...)...)
		}
		start = "(" + page[len(page)-1].ID
	}
}

// saveScanned saves what is found only by its name: replies, bars, and weather.
func (s *saver) saveScanned(ctx context.Context) error {
	masters, err := s.Masters(ctx)
	if err != nil {
		return err
	}
	for _, m := range masters {
		for cursor := uint64(0); ; {
			keys, next, err := m.Scan(ctx, cursor, "", scanCount).Result()
			if err != nil {
				return err
			}
			if err := s.saveFound(ctx, keys); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}

func (s *saver) saveFound(ctx context.Context, keys []string) error {
	for _, key := range keys {
		former := redisclient.Former(key)
		tag, name, _ := strings.Cut(former, ":")
		var err error
		switch {
		case strings.HasPrefix(tag, "{p") && strings.HasPrefix(name, "reply:"):
			err = s.saveReply(ctx, key, strings.TrimPrefix(name, "reply:"))
		case tag == "{market}" && strings.HasPrefix(name, "bars:"):
			err = s.saveSortedSet(ctx, key)
		case tag == "{weather}":
			err = s.saveString(ctx, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// saveString saves a string, and how long it is kept.
func (s *saver) saveString(ctx context.Context, key string) error {
	value, until, err := s.readString(ctx, key)
	if err != nil || value == "" {
		return err
	}
	return s.add(kindString, texts(redisclient.Former(key), until, value)...)
}

// readString returns a string, "" without one, and until when it is kept.
func (s *saver) readString(ctx context.Context, key string) (value, until string, err error) {
	pipe := s.RDB.TxPipeline()
	got, expires := pipe.Get(ctx, key), pipe.PExpireTime(ctx, key)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return "", "", err
	}
	return got.Val(), untilText(expires), nil
}

// saveReply saves the reply to a request whose change is in the backup.
func (s *saver) saveReply(ctx context.Context, key, name string) error {
	account, digest, _ := strings.Cut(name, ":")
	value, until, err := s.readString(ctx, key)
	if err != nil || value == "" {
		return err
	}
	at, _, err := codec.CutStamp([]byte(value))
	if err != nil || s.cuts[s.Partition(signal.AccountID(account))].after(at) {
		return nil // the lock of a request under way, or a later change
	}
	return s.add(kindReply, texts(account, digest, until, value)...)
}
