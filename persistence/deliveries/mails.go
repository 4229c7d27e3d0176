package deliveries

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	redisclient "github.com/agentsignal/agentsignal/persistence/redis"
)

// Mails that are still to be sent stand in a sorted set of their partition, by when.
// They are stored with what they tell of, so that each is made once.

// mailVersion is the first byte of a mail's record.
const mailVersion = 1

// appendMail adds the record of m: all but its identifier.
func appendMail(b []byte, m *delivery.Mail) []byte {
	b = append(b, mailVersion)
	b = codec.AppendString(b, string(m.Kind))
	b = codec.AppendString(b, string(m.Account))
	b = codec.AppendString(b, string(m.Webhook))
	b = codec.AppendString(b, m.URL)
	b = binary.AppendUvarint(b, uint64(codec.MilliOf(m.Since)))
	b = binary.AppendUvarint(b, uint64(codec.MilliOf(m.At)))
	b = codec.AppendString(b, m.Error)
	return binary.AppendUvarint(b, uint64(uint32(max(m.Tries, 0))))
}

// decodeMail is the inverse of appendMail.
func decodeMail(id string, value []byte) (delivery.Mail, error) {
	d := codec.NewDecoder(value)
	if version := d.Byte(); d.Err == nil && version != mailVersion {
		d.Fail(fmt.Errorf("version %d is not known: this process reads version %d", version, mailVersion))
	}
	m := delivery.Mail{ID: id}
	m.Kind = delivery.MailKind(d.TextBytes(d.Byte()))
	m.Account = signal.AccountID(d.TextBytes(d.Byte()))
	m.Webhook = signal.WebhookID(d.TextBytes(d.Byte()))
	m.URL = string(d.TextBytes(d.Byte()))
	m.Since, m.At = d.Time(), d.Time()
	m.Error = string(d.TextBytes(d.Byte()))
	m.Tries = int(uint32(d.Uvarint()))
	if d.Err != nil {
		return delivery.Mail{}, fmt.Errorf("decode mail: %w", d.Err)
	}
	return m, nil
}

// addMail stores a new mail, to be sent at once. It is named by what it says, so that
// it is not doubled if the operation is repeated.
func addMail(o *eventlog.Operation, p int, m delivery.Mail, now time.Time) {
	record := appendMail(nil, &m)
	digest := sha256.Sum256(record)
	m.ID = hex.EncodeToString(digest[:16])
	o.Step(eventlog.CmdHSet, o.Key(redisclient.MailRecordsKey(p)), m.ID, codec.Text(record))
	o.Step(eventlog.CmdZAdd, o.Key(redisclient.MailsKey(p)), codec.MilliText(now), m.ID)
}

// DueMails returns at most limit mails of partition p that are to be sent until the
// given time, the oldest first, and when the first one after that time is; zero: none
// is. One that cannot be read is logged and postponed.
func (h *Store) DueMails(ctx context.Context, p int, until time.Time, limit int) (mails []delivery.Mail, next time.Time, err error) {
	at := codec.MilliText(until)
	pipe := h.store.RDB.Pipeline()
	found := pipe.ZRangeByScore(ctx, redisclient.MailsKey(p), &redis.ZRangeBy{Min: "-inf", Max: at, Count: int64(limit)})
	later := pipe.ZRangeByScoreWithScores(ctx, redisclient.MailsKey(p), &redis.ZRangeBy{Min: "(" + at, Max: "+inf", Count: 1})
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return nil, next, redisclient.Unavailable(fmt.Errorf("read mails of partition %d: %w", p, err))
	}
	if z := later.Val(); len(z) > 0 {
		next = codec.TimeOfMilli(int64(z[0].Score))
	}
	ids := found.Val()
	if len(ids) == 0 {
		return nil, next, nil
	}
	records, err := h.store.RDB.HMGet(ctx, redisclient.MailRecordsKey(p), ids...).Result()
	if err != nil {
		return nil, next, redisclient.Unavailable(fmt.Errorf("read mails of partition %d: %w", p, err))
	}
	for i, r := range records {
		record, ok := r.(string)
		if !ok { // removed between the two reads, if nothing is wrong
			if err := removeMails(ctx, h.store.Client, p, ids[i:i+1]); err != nil {
				return nil, next, err
			}
			continue
		}
		m, err := decodeMail(ids[i], []byte(record))
		if err != nil {
			h.store.Log.Error("a mail is not readable", "component", "persistence", "partition", p, "err", err)
			if err := h.store.Postpone(ctx, redisclient.MailsKey(p), until, ids[i]); err != nil {
				return nil, next, err
			}
			continue
		}
		mails = append(mails, m)
	}
	return mails, next, nil
}

// removeMails removes mails by their identifiers.
func removeMails(ctx context.Context, c *redisclient.Client, p int, ids []string) error {
	members := make([]any, len(ids))
	for i, id := range ids {
		members[i] = id
	}
	pipe := c.RDB.TxPipeline()
	pipe.HDel(ctx, redisclient.MailRecordsKey(p), ids...)
	pipe.ZRem(ctx, redisclient.MailsKey(p), members...)
	if err := redisclient.Execute(ctx, pipe); err != nil {
		return redisclient.Unavailable(fmt.Errorf("remove mails of partition %d: %w", p, err))
	}
	return nil
}

// StoreMailOutcome stores that m was tried to be sent: it is tried again at the given
// time, or never if that is zero, because it was sent or given up. A mail that was
// removed meanwhile stays so.
func (h *Store) StoreMailOutcome(ctx context.Context, p int, epoch int64, m delivery.Mail, again time.Time) error {
	o := eventlog.NewOperation()
	o.Fence(epoch)
	mails, records := o.Key(redisclient.MailsKey(p)), o.Key(redisclient.MailRecordsKey(p))
	gone := errors.New("the mail is gone")
	o.Guard(eventlog.GuardMember, mails, gone, m.ID)
	if again.IsZero() {
		o.Step(eventlog.CmdZRem, mails, m.ID)
		o.Step(eventlog.CmdHDel, records, m.ID)
	} else {
		m.Tries++
		o.Step(eventlog.CmdZAdd, mails, codec.MilliText(again), m.ID)
		o.Step(eventlog.CmdHSet, records, m.ID, codec.Text(appendMail(nil, &m)))
	}
	_, err := h.log.Apply(ctx, p, o)
	if errors.Is(err, gone) {
		return nil
	}
	return err
}
