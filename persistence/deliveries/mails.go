package deliveries

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Mails that are to be sent stand in a sorted set of their partition, by when. A mail is stored
// together with the change that it reports, so that it is made once.

// mailVersion is the first byte of a mail's record.
const mailVersion = 1

// appendMail appends the record of m: all except its identifier.
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
	d := codec.DecodeVersion(value, mailVersion)
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

// addMail stores a new mail, to be sent at once. Its name is the digest of its content, so that
// there is one even if the operation is repeated.
func addMail(o *eventlog.Operation, p int, m delivery.Mail, now time.Time) {
	record := appendMail(nil, &m)
	digest := sha256.Sum256(record)
	m.ID = hex.EncodeToString(digest[:16])
	o.Step(eventlog.CmdHSet, o.Key(o.MailRecordsKey(p)), m.ID, codec.Text(record))
	o.Step(eventlog.CmdZAdd, o.Key(o.MailsKey(p)), codec.MilliText(now), m.ID)
}

// Mails are the mails about webhooks that are to be sent.
type Mails struct {
	*redisclient.Client
	log *eventlog.Log
}

// DueMails returns at most limit mails of partition p that are to be sent until the given time,
// the oldest first, and when the first one after that time is due, or zero. One that cannot be
// read is logged and postponed.
func (h *Mails) DueMails(ctx context.Context, p int, until time.Time, limit int) (
	mails []delivery.Mail, next time.Time, err error) {
	ids, next, err := dueMembers(ctx, h.Client, h.MailsKey(p), until, limit)
	if err != nil || len(ids) == 0 {
		return nil, next, redisclient.Failed(err, "read mails of partition %d", p)
	}
	records, err := h.RDB.HMGet(ctx, h.MailRecordsKey(p), ids...).Result()
	if err != nil {
		return nil, next, redisclient.Failed(err, "read mails of partition %d", p)
	}
	for i, r := range records {
		record, ok := r.(string)
		m, err := decodeMail(ids[i], []byte(record))
		switch {
		case !ok: // removed between the two reads, if nothing is wrong
			err = removeMails(ctx, h.Client, p, ids[i:i+1])
		case err != nil:
			h.Log.Error("a mail is not readable", "component", "persistence", "partition", p, "err", err)
			err = h.Postpone(ctx, h.MailsKey(p), until, ids[i])
		default:
			mails = append(mails, m)
		}
		if err != nil {
			return nil, next, err
		}
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
	pipe.HDel(ctx, c.MailRecordsKey(p), ids...)
	pipe.ZRem(ctx, c.MailsKey(p), members...)
	return redisclient.Failed(redisclient.Execute(ctx, pipe), "remove mails of partition %d", p)
}

// StoreMailOutcome stores the outcome of an attempt to send m: it is tried again at the given
// time, or never if that is zero, because it was sent or given up. A mail that was removed
// meanwhile stays removed.
func (h *Mails) StoreMailOutcome(ctx context.Context, p int, epoch int64, m delivery.Mail, again time.Time) error {
	o := eventlog.NewOperation(h.Keys)
	o.Fence(epoch)
	mails, records := o.Key(h.MailsKey(p)), o.Key(h.MailRecordsKey(p))
	removed := errors.New("the mail was removed")
	o.Guard(eventlog.GuardMember, mails, removed, m.ID)
	if again.IsZero() {
		o.Step(eventlog.CmdZRem, mails, m.ID)
		o.Step(eventlog.CmdHDel, records, m.ID)
	} else {
		m.Tries++
		o.Step(eventlog.CmdZAdd, mails, codec.MilliText(again), m.ID)
		o.Step(eventlog.CmdHSet, records, m.ID, codec.Text(appendMail(nil, &m)))
	}
	_, err := h.log.Apply(ctx, p, o)
	if errors.Is(err, removed) {
		return nil
	}
	return err
}
