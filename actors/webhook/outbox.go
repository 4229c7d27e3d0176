package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/mail"
)

// mailStored notifies the outbox of new mails.
type mailStored struct{}

// mailsDue is sent when mails may be due, mailsDone when they were sent.
type (
	mailsDue  struct{}
	mailsDone struct {
		next time.Time // when the next one is due, or zero
		err  error
	}
)

// mails stores the mails of a partition.
type mails interface {
	// DueMails returns mails that are due at until, and the time of the first later one, or
	// zero.
	DueMails(ctx context.Context, partition int, until time.Time, limit int) (
		due []delivery.Mail, next time.Time, err error)
	// StoreMailOutcome stores that a mail was tried. It is retried at the given time, or
	// dropped if that is zero.
	StoreMailOutcome(ctx context.Context, partition int, epoch int64, m delivery.Mail, again time.Time) error
}

// Mailer sends mails. mail.SMTP implements it.
type Mailer interface {
	// Send passes a mail to the server. It returns within a limited time.
	Send(ctx context.Context, l mail.Message) error
}

// Addresses returns the addresses of accounts.
type Addresses interface {
	// Email returns an account's address, or KindNotFound if the account was deleted.
	Email(ctx context.Context, account signal.AccountID) (string, error)
}

// mailRetries are the pauses after failed tries to send a mail. After the last one it is
// given up.
var mailRetries = []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 8 * time.Hour}

const (
	// mailPage is how many mails are read at once; they are sent one by one.
	mailPage = 16
	// mailCheck is the longest time between two reads, in case a message is missed.
	mailCheck = time.Minute
)

// outbox is the actor that sends the mails of an owned partition, so that trouble with mail
// affects nothing else.
type outbox struct {
	o      *owned
	busy   bool
	again  bool // mails arrived while it was busy
	timer  engine.Timer
	failed backoff.Backoff
}

func newOutbox(o *owned) *outbox { return &outbox{o: o} }

// Receive implements engine.Actor.
func (m *outbox) Receive(c engine.Context) {
	switch msg := c.Message().(type) {
	case engine.Started, mailStored, mailsDue:
		m.send(c)
	case mailsDone:
		m.onDone(c, msg)
	}
}

func (m *outbox) send(c engine.Context) {
	if m.busy {
		m.again = true
		return
	}
	m.busy, m.again = true, false
	m.timer.Stop()
	o := dueMails{m.o}
	c.Go(func(ctx context.Context) any {
		next, err := o.send(ctx)
		return mailsDone{next, err}
	})
}

func (m *outbox) onDone(c engine.Context, d mailsDone) {
	m.busy = false
	if d.err != nil {
		if m.o.Refused(d.err) {
			return
		}
		m.failed.Log(m.o.log, "mails are not processed", "err", d.err)
		m.timer = c.After(m.failed.Next(), mailsDue{})
		return
	}
	m.failed.Reset()
	if m.again {
		m.send(c)
		return
	}
	wait := mailCheck
	if !d.next.IsZero() {
		wait = min(wait, m.o.in(d.next))
	}
	m.timer = c.After(wait, mailsDue{})
}

// dueMails sends the mails of a partition that are due.
type dueMails struct{ *owned }

// send sends the due mails, and returns when the next one is due.
func (o dueMails) send(ctx context.Context) (next time.Time, err error) {
	for {
		due, next, err := o.store.DueMails(ctx, o.Partition, o.now(), mailPage)
		if err != nil {
			return next, fmt.Errorf("read mails: %w", err)
		}
		if len(due) == 0 {
			return next, nil
		}
		for _, m := range due {
			again := o.sendOne(ctx, m)
			if ctx.Err() != nil {
				return next, ctx.Err()
			}
			if err := o.store.StoreMailOutcome(ctx, o.Partition, o.Epoch, m, again); err != nil {
				return next, fmt.Errorf("store outcome of mail: %w", err)
			}
		}
	}
}

// sendOne tries to send m and returns when to retry it, or zero.
func (o dueMails) sendOne(ctx context.Context, m delivery.Mail) (again time.Time) {
	log := o.log.With("kind", string(m.Kind), "account", string(m.Account), "webhook", string(m.Webhook))
	if o.options.Mailer == nil || o.options.Addresses == nil {
		log.Warn("mail is not sent: no server is configured")
		o.options.Metrics.emailed(mailUnsent)
		return time.Time{}
	}
	to, err := o.options.Addresses.Email(ctx, m.Account)
	if signal.KindOf(err) == signal.KindNotFound {
		return time.Time{} // the account was deleted
	}
	if err == nil {
		err = o.sendSafely(ctx, mail.Compose(&m, to))
	}
	if ctx.Err() != nil {
		return time.Time{}
	}
	tries := m.Tries + 1
	switch {
	case err == nil:
		log.Info("mail is sent")
		o.options.Metrics.emailed(mailSent)
		return time.Time{}
	case tries > len(mailRetries):
		log.Error("mail is given up", "tries", tries, "err", err)
		o.options.Metrics.emailed(mailGivenUp)
		return time.Time{}
	}
	log.Warn("mail is not sent", "tries", tries, "err", err)
	o.options.Metrics.emailed(mailDeferred)
	return o.now().Add(mailRetries[tries-1])
}

// sendSafely sends m. A panic, which an answer of the server may cause, fails this mail
// only: a restarted actor would panic again at once.
func (o dueMails) sendSafely(ctx context.Context, m mail.Message) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("send mail: panic: %v", reason)
		}
	}()
	return o.options.Mailer.Send(ctx, m)
}
