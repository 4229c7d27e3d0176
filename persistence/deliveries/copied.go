package deliveries

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// Webhooks and deliveries as a backup has them: their stored records.

// Copied is a webhook with the stored record of its settings and that of its health, "" without one.
type Copied struct {
	Account        signal.AccountID
	ID             signal.WebhookID
	Record, Health string
}

// Webhook returns the decoded record.
func (c *Copied) Webhook() (delivery.Webhook, error) {
	return decodeWebhook(c.Account, c.ID, []byte(c.Record))
}

// Move changes the position from which the webhook gets events.
func (c *Copied) Move(to func(signal.Position) signal.Position) {
	if since, rest := cutSince(c.Record); !since.IsZero() {
		c.Record = to(since).String() + " " + rest
	}
}

// Restore adds the commands that store c, which must not be stored yet, in partition p.
func (c *Copied) Restore(ctx context.Context, pipe redis.Pipeliner, k redisclient.Keys, p int) {
	pipe.HSet(ctx, k.WebhooksKey(p, c.Account), string(c.ID), c.Record)
	if c.Health != "" {
		pipe.HSet(ctx, k.WebhookHealthKey(p, c.Account), string(c.ID), c.Health)
	}
	pipe.SAdd(ctx, k.WebhookAccountsKey(p), string(c.Account))
	pipe.HIncrBy(ctx, k.WebhookStatsKey(p), string(statusOfRecord(c.Record)), 1)
}

// CopiedDelivery is a pending delivery with its stored record and the stored payload.
type CopiedDelivery struct {
	Account              signal.AccountID
	Webhook              signal.WebhookID
	Member, Record, Body string
	Due                  float64 // milliseconds
}

// BodyKeyOf returns under which key the payload of a stored delivery is, and whether that is pending.
func BodyKeyOf(record string) (key string, pending bool) {
	if len(record) < deliveryFront || record[0] != deliveryVersion {
		return "", false
	}
	return record[1 : 1+bodyKeyBytes], record[39]&stateBits == statePending
}

// Restore adds the commands that store d, which must not be stored yet, in partition p. stored reports whether
// the payload is stored already.
func (d *CopiedDelivery) Restore(ctx context.Context, pipe redis.Pipeliner, k redisclient.Keys, p int,
	stored bool) error {
	key, pending := BodyKeyOf(d.Record)
	if !pending || len(d.Member) < 16 {
		return fmt.Errorf("a delivery of webhook %s is not readable", d.Webhook)
	}
	w := hook{keys: k, p: p, account: d.Account, id: d.Webhook}
	created := timeOfBytes([]byte(d.Record[21:27])).UnixMilli()
	pipe.HSet(ctx, w.records(), d.Member[:16], d.Record)
	pipe.ZAdd(ctx, w.all(), redis.Z{Score: float64(created), Member: d.Member})
	pipe.ZAdd(ctx, w.pending(), redis.Z{Score: d.Due, Member: d.Member})
	pipe.ZAddLT(ctx, k.WebhooksDueKey(p), redis.Z{Score: d.Due, Member: w.member()})
	pipe.HIncrBy(ctx, k.WebhookStatsKey(p), "pending", 1)
	if stored {
		pipe.HIncrBy(ctx, k.BodyRefsKey(p), key, 1)
	} else {
		pipe.HSet(ctx, k.BodiesKey(p), key, d.Body)
	}
	return nil
}

// MailAccount returns the account of a stored mail, or "" if that is not readable.
func MailAccount(id, record string) signal.AccountID {
	m, err := decodeMail(id, []byte(record))
	if err != nil {
		return ""
	}
	return m.Account
}
