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

// mailStored notifies the outbox that there are new mails.
type mailStored struct{}

// mailsDue is sent when mails may be due, mailsDone when they were sent.
type (
	mailsDue  struct{}
	mailsDone struct {
		next time.Time // when the next one is due; zero: there is none
		err  error
	}
)

// mails has the mails of a partition that are to be sent.
type mails interface {
	// DueMails returns mails that are due at until, and when the first one after until
	// is due; zero: none is.
	DueMails(ctx context.Context, partition int, until time.Time, limit int) (
		due []delivery.Mail, next time.Time, err error)
	// StoreMailOutcome stores that a mail was tried: it is tried again at the given
	// time; zero: it is done with.
	StoreMailOutcome(ctx context.Context, partition int, epoch int64, m delivery.Mail, again time.Time) error
}

// Mailer sends mails, as mail.SMTP does.
type Mailer interface {
	// Send hands a mail over to the server. It returns within a limited time.
	Send(ctx context.Context, l mail.Message) error
}

// Addresses has the addresses of accounts.
type Addresses interface {
	// Email returns an account's address. KindNotFound: the account was deleted.
	Email(ctx context.Context, account signal.AccountID) (string, error)
}

// mailRetries are the pauses after tries to send a mail that failed. After the last
// one it is given up.
var mailRetries = []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 8 * time.Hour}

const (
	// mailsAtOnce is how many mails are read at once; they are sent one by one.
	mailsAtOnce = 16
	// mailCheck is the longest time between two reads, in case a message is missed.
	mailCheck = time.Minute
)

// outbox is the actor that sends the mails of an owned partition. It is an actor of its own
// so that trouble with mail affects nothing else.
type outbox struct {
	o      *owned
	busy   bool
	again  bool // mails came while it was busy
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
	o := m.o
	c.Go(func(ctx context.Context) any {
		next, err := o.sendMails(ctx)
		return mailsDone{next, err}
	})
}

func (m *outbox) onDone(c engine.Context, d mailsDone) {
	m.busy = false
	if d.err != nil {
		if m.o.Refused(d.err) {
			return
		}
		m.failed.Log(m.o.log, "mails are not seen to", "err", d.err)
		m.timer = c.After(m.failed.Next(), mailsDue{})
		return
	}
	m.failed.Reset()
	if m.again {
		m.send(c)
		return
	}
	wait := time.Duration(mailCheck)
	if !d.next.IsZero() {
		wait = min(wait, m.o.in(d.next))
	}
	m.timer = c.After(wait, mailsDue{})
}

// sendMails sends the mails that are due, and returns when the next one is.
func (o *owned) sendMails(ctx context.Context) (next time.Time, err error) {
	for {
		due, next, err := o.store.DueMails(ctx, o.Partition, o.now(), mailsAtOnce)
		if err != nil {
			return next, fmt.Errorf("read mails: %w", err)
		}
		if len(due) == 0 {
			return next, nil
		}
		for _, m := range due {
			again := o.sendMail(ctx, m)
			if ctx.Err() != nil {
				return next, ctx.Err()
			}
			if err := o.store.StoreMailOutcome(ctx, o.Partition, o.Epoch, m, again); err != nil {
				return next, fmt.Errorf("store outcome of mail: %w", err)
			}
		}
	}
}

// sendMail tries to send m and returns when it is tried again; zero: it is done with.
func (o *owned) sendMail(ctx context.Context, m delivery.Mail) (again time.Time) {
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
// only: a restarted actor would run into it again at once.
func (o *owned) sendSafely(ctx context.Context, m mail.Message) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("send mail: panic: %v", reason)
		}
	}()
	return o.options.Mailer.Send(ctx, m)
}
