package persistence

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
)

// Mails that are still to be sent stand in a sorted set of their partition, by when.
// They are stored with what they tell of, so that each is made once.

// mailVersion is the first byte of a mail's record.
const mailVersion = 1

// appendMail adds the record of m: all but its identifier.
func appendMail(b []byte, m *delivery.Mail) []byte {
	b = append(b, mailVersion)
	b = appendString(b, string(m.Kind))
	b = appendString(b, string(m.Account))
	b = appendString(b, string(m.Webhook))
	b = appendString(b, m.URL)
	b = binary.AppendUvarint(b, uint64(milliOf(m.Since)))
	b = binary.AppendUvarint(b, uint64(milliOf(m.At)))
	b = appendString(b, m.Error)
	return binary.AppendUvarint(b, uint64(uint32(max(m.Tries, 0))))
}

// decodeMail is the inverse of appendMail.
func decodeMail(id string, value []byte) (delivery.Mail, error) {
	d := newDecoder(value)
	if version := d.byte(); d.err == nil && version != mailVersion {
		d.fail(fmt.Errorf("version %d is not known: this process reads version %d", version, mailVersion))
	}
	m := delivery.Mail{ID: id}
	m.Kind = delivery.MailKind(d.textBytes(d.byte()))
	m.Account = signal.AccountID(d.textBytes(d.byte()))
	m.Webhook = signal.WebhookID(d.textBytes(d.byte()))
	m.URL = string(d.textBytes(d.byte()))
	m.Since, m.At = d.time(), d.time()
	m.Error = string(d.textBytes(d.byte()))
	m.Tries = int(uint32(d.uvarint()))
	if d.err != nil {
		return delivery.Mail{}, fmt.Errorf("decode mail: %w", d.err)
	}
	return m, nil
}

// addMail stores a new mail, to be sent at once. It is named by what it says, so that
// it is not doubled if the operation is repeated.
func (o *operation) addMail(p int, m delivery.Mail, now time.Time) {
	record := appendMail(nil, &m)
	digest := sha256.Sum256(record)
	m.ID = hex.EncodeToString(digest[:16])
	o.step(cmdHSet, o.key(mailRecordsKey(p)), m.ID, text(record))
	o.step(cmdZAdd, o.key(mailsKey(p)), milliText(now), m.ID)
}

// DueMails returns at most limit mails of partition p that are to be sent until the
// given time, the oldest first, and when the first one after that time is; zero: none
// is. One that cannot be read is logged and postponed.
func (h *Webhooks) DueMails(ctx context.Context, p int, until time.Time, limit int) (mails []delivery.Mail, next time.Time, err error) {
	at := milliText(until)
	pipe := h.store.rdb.Pipeline()
	found := pipe.ZRangeByScore(ctx, mailsKey(p), &redis.ZRangeBy{Min: "-inf", Max: at, Count: int64(limit)})
	later := pipe.ZRangeByScoreWithScores(ctx, mailsKey(p), &redis.ZRangeBy{Min: "(" + at, Max: "+inf", Count: 1})
	if err := execute(ctx, pipe); err != nil {
		return nil, next, unavailable(fmt.Errorf("read mails of partition %d: %w", p, err))
	}
	if z := later.Val(); len(z) > 0 {
		next = timeOfMilli(int64(z[0].Score))
	}
	ids := found.Val()
	if len(ids) == 0 {
		return nil, next, nil
	}
	records, err := h.store.rdb.HMGet(ctx, mailRecordsKey(p), ids...).Result()
	if err != nil {
		return nil, next, unavailable(fmt.Errorf("read mails of partition %d: %w", p, err))
	}
	for i, r := range records {
		record, ok := r.(string)
		if !ok { // removed between the two reads, if nothing is wrong
			if err := h.store.removeMails(ctx, p, ids[i:i+1]); err != nil {
				return nil, next, err
			}
			continue
		}
		m, err := decodeMail(ids[i], []byte(record))
		if err != nil {
			h.store.log.Error("a mail is not readable", "component", "persistence", "partition", p, "err", err)
			if err := h.store.postpone(ctx, mailsKey(p), until, ids[i]); err != nil {
				return nil, next, err
			}
			continue
		}
		mails = append(mails, m)
	}
	return mails, next, nil
}

// removeMails removes mails by their identifiers.
func (s *Store) removeMails(ctx context.Context, p int, ids []string) error {
	members := make([]any, len(ids))
	for i, id := range ids {
		members[i] = id
	}
	pipe := s.rdb.TxPipeline()
	pipe.HDel(ctx, mailRecordsKey(p), ids...)
	pipe.ZRem(ctx, mailsKey(p), members...)
	if err := execute(ctx, pipe); err != nil {
		return unavailable(fmt.Errorf("remove mails of partition %d: %w", p, err))
	}
	return nil
}

// StoreMailOutcome stores that m was tried to be sent: it is tried again at the given
// time, or never if that is zero, because it was sent or given up. A mail that was
// removed meanwhile stays so.
func (h *Webhooks) StoreMailOutcome(ctx context.Context, p int, epoch int64, m delivery.Mail, again time.Time) error {
	o := newOperation()
	o.fence(epoch)
	mails, records := o.key(mailsKey(p)), o.key(mailRecordsKey(p))
	gone := errors.New("the mail is gone")
	o.guard(guardMember, mails, gone, m.ID)
	if again.IsZero() {
		o.step(cmdZRem, mails, m.ID)
		o.step(cmdHDel, records, m.ID)
	} else {
		m.Tries++
		o.step(cmdZAdd, mails, milliText(again), m.ID)
		o.step(cmdHSet, records, m.ID, text(appendMail(nil, &m)))
	}
	_, err := h.log.apply(ctx, p, o)
	if errors.Is(err, gone) {
		return nil
	}
	return err
}
