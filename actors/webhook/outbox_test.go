package webhook

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/actors/webhook/mail"
)

// addresses returns the address of every account except the deleted "gone".
type addresses struct{ err error }

func (a addresses) Email(_ context.Context, account signal.AccountID) (string, error) {
	switch {
	case account == "gone":
		return "", signal.NotFound("account")
	case a.err != nil:
		return "", a.err
	}
	return "ann@example.com", nil
}

// fakeMailer accepts mails. The zero value accepts them all.
type fakeMailer struct {
	mu    sync.Mutex
	fails func(l mail.Message) error
	takes time.Duration
	tries []time.Time
	ids   []string // of accepted mails
}

func (p *fakeMailer) Send(ctx context.Context, l mail.Message) error {
	p.mu.Lock()
	p.tries = append(p.tries, time.Now())
	fails, takes := p.fails, p.takes
	p.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if fails != nil {
		if err := fails(l); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids = append(p.ids, l.ID)
	return nil
}

func (p *fakeMailer) tried() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries
}

func (p *fakeMailer) accepted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids
}

// inMailWorld runs a test in a world with a mailer.
func inMailWorld(t *testing.T, p *fakeMailer, test func(t *testing.T, w *world)) {
	inWorldWith(t, func(o *Options) { o.Mailer, o.Addresses = p, addresses{} }, test)
}

// mail stores a due mail.
func (w *world) mail(id string, change ...func(m *delivery.Mail)) {
	m := delivery.Mail{ID: id, Kind: delivery.MailWebhookFailing, Account: w.account, Webhook: "whk_1", At: time.Now()}
	for _, f := range change {
		f(&m)
	}
	w.store.set(func() { w.store.mailbox[id], w.store.mailDue[id] = m, time.Now() })
}

// waiting returns the number of mails that are not sent.
func (w *world) waiting() int { return peek(w.store, func() int { return len(w.store.mailDue) }) }

func TestMailsAreRetriedAndGivenUp(t *testing.T) {
	p := &fakeMailer{fails: func(l mail.Message) error {
		if l.ID == "bad" {
			return errDown
		}
		return nil
	}}
	inMailWorld(t, p, func(t *testing.T, w *world) {
		w.mail("bad")
		w.start()
		pass(12 * time.Hour)
		var pauses []time.Duration
		for i, at := range p.tried()[1:] {
			pauses = append(pauses, at.Sub(p.tried()[i]).Round(time.Second))
		}
		if d := cmp.Diff(mailRetries, pauses); d != "" {
			t.Errorf("pauses (-want +got):\n%s", d)
		}
		if w.waiting() != 0 {
			t.Error("it is not given up")
		}
		w.mail("good")
		pass(2 * time.Minute)
		if d := cmp.Diff([]string{"good"}, p.accepted()); d != "" {
			t.Errorf("accepted (-want +got):\n%s", d)
		}
		want := map[string]float64{"deferred": 5, "given_up": 1, "sent": 1}
		if d := cmp.Diff(want, w.counted("agentsignal_emails_total")); d != "" {
			t.Errorf("counted (-want +got):\n%s", d)
		}
	})
}

// A refused mail does not block the others.
func TestOneMailFailsAndOthersDoNot(t *testing.T) {
	p := &fakeMailer{fails: func(l mail.Message) error {
		switch l.ID {
		case "m0":
			return errDown
		case "m1":
			panic("in the mailer")
		}
		return nil
	}}
	inMailWorld(t, p, func(t *testing.T, w *world) {
		for i := range 40 {
			w.mail("m" + string(rune('0'+i)))
		}
		w.mail("nobody", func(m *delivery.Mail) { m.Account = "gone" })
		w.start()
		pass(time.Second)
		if n := len(p.accepted()); n != 38 || w.waiting() != 2 {
			t.Errorf("%d mails are sent, %d wait, want 38 and 2", n, w.waiting())
		}
	})
}

func TestMailsWithoutSettings(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.mail("1")
		w.start()
		pass(time.Second)
		counted := w.counted("agentsignal_emails_total")
		if w.waiting() != 0 || counted["not_sent"] != 1 || w.lines.count("no server is configured") != 1 {
			t.Errorf("%d wait, counted %v", w.waiting(), counted)
		}
	})
}

func TestAnAddressThatCannotBeRead(t *testing.T) {
	p := &fakeMailer{}
	failing := func(o *Options) { o.Mailer, o.Addresses = p, addresses{err: errDown} }
	inWorldWith(t, failing, func(t *testing.T, w *world) {
		w.mail("1")
		w.start()
		pass(90 * time.Second)
		tries := peek(w.store, func() int { return w.store.mailbox["1"].Tries })
		if w.waiting() != 1 || tries != 2 || len(p.tried()) != 0 {
			t.Errorf("%d wait, %d tries, %d calls of the mailer", w.waiting(), tries, len(p.tried()))
		}
	})
}

// A mail server that hangs, refuses or fails does not affect deliveries, and a webhook is
// disabled with its mail stored.
func TestTroubleWithMailAffectsNoDelivery(t *testing.T) {
	p := &fakeMailer{takes: 20 * time.Second, fails: func(mail.Message) error { panic("in the mailer") }}
	inMailWorld(t, p, func(t *testing.T, w *world) {
		w.node.options.Health = HealthRules{DisableAfter: time.Minute, MinFailures: 2}
		failing, healthy := w.register(), w.register()
		w.fromBad(failing, answers503)
		w.start()
		var events []signal.EventID
		for range 20 {
			sent := w.emit(10)
			pass(10 * time.Second)
			w.once(healthy, sent)
			events = append(events, sent...)
		}
		w.statuses(healthy, map[string]int{"succeeded": len(events)})
		w.mails(delivery.MailWebhookDisabled)
		if len(p.tried()) == 0 {
			t.Error("no mail was tried")
		}
		if w.store.hook(failing).Status != delivery.WebhookDisabled {
			t.Error("the failing webhook is not disabled")
		}
	})
}

// If Redis fails, nothing is sent twice in a row without a pause, and everything is sent.
func TestRedisFailsWhileMailsAreSent(t *testing.T) {
	p := &fakeMailer{}
	inMailWorld(t, p, func(t *testing.T, w *world) {
		w.store.fail = failIf(false, func(op string) bool {
			return w.store.calls[op] < map[string]int{"DueMails": 5, "StoreMailOutcome": 3}[op]
		})
		w.mail("1")
		w.start()
		pass(2 * time.Minute)
		if w.waiting() != 0 {
			t.Error("the mail is not done")
		}
		if n := len(p.tried()); n != 3 {
			t.Errorf("sent %d times, want 3: its outcome could not be stored twice", n)
		}
	})
}

func TestMailsOfAnotherOwner(t *testing.T) {
	inMailWorld(t, &fakeMailer{}, func(t *testing.T, w *world) {
		w.store.epoch = 2
		w.mail("1")
		w.start()
		pass(time.Second)
		w.losses(1)
	})
}
