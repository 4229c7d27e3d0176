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

// withMailHarness runs a test in a harness with a mailer.
func withMailHarness(t *testing.T, p *fakeMailer, test func(t *testing.T, h *harness)) {
	withHarnessOptions(t, func(o *Options) { o.Mailer, o.Addresses = p, addresses{} }, test)
}

// mail stores a due mail.
func (h *harness) mail(id string, change ...func(m *delivery.Mail)) {
	m := delivery.Mail{ID: id, Kind: delivery.MailWebhookFailing, Account: h.account, Webhook: "whk_1", At: time.Now()}
	for _, f := range change {
		f(&m)
	}
	h.store.set(func() { h.store.mailbox[id], h.store.mailDue[id] = m, time.Now() })
}

// waiting returns the number of mails that are not sent.
func (h *harness) waiting() int { return peek(h.store, func() int { return len(h.store.mailDue) }) }

func TestMailsAreRetriedAndGivenUp(t *testing.T) {
	p := &fakeMailer{fails: func(l mail.Message) error {
		if l.ID == "bad" {
			return errDown
		}
		return nil
	}}
	withMailHarness(t, p, func(t *testing.T, h *harness) {
		h.mail("bad")
		h.start()
		pass(12 * time.Hour)
		var pauses []time.Duration
		for i, at := range p.tried()[1:] {
			pauses = append(pauses, at.Sub(p.tried()[i]).Round(time.Second))
		}
		if d := cmp.Diff(mailRetries, pauses); d != "" {
			t.Errorf("pauses (-want +got):\n%s", d)
		}
		if h.waiting() != 0 {
			t.Error("it is not given up")
		}
		h.mail("good")
		pass(2 * time.Minute)
		if d := cmp.Diff([]string{"good"}, p.accepted()); d != "" {
			t.Errorf("accepted (-want +got):\n%s", d)
		}
		want := map[string]float64{"deferred": 5, "given_up": 1, "sent": 1}
		if d := cmp.Diff(want, h.counted("agentsignal_emails_total")); d != "" {
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
	withMailHarness(t, p, func(t *testing.T, h *harness) {
		for i := range 40 {
			h.mail("m" + string(rune('0'+i)))
		}
		h.mail("nobody", func(m *delivery.Mail) { m.Account = "gone" })
		h.start()
		pass(time.Second)
		if n := len(p.accepted()); n != 38 || h.waiting() != 2 {
			t.Errorf("%d mails are sent, %d wait, want 38 and 2", n, h.waiting())
		}
	})
}

func TestMailsWithoutSettings(t *testing.T) {
	withHarness(t, func(t *testing.T, h *harness) {
		h.mail("1")
		h.start()
		pass(time.Second)
		counted := h.counted("agentsignal_emails_total")
		if h.waiting() != 0 || counted["not_sent"] != 1 || h.lines.count("no server is configured") != 1 {
			t.Errorf("%d wait, counted %v", h.waiting(), counted)
		}
	})
}

func TestAnAddressThatCannotBeRead(t *testing.T) {
	p := &fakeMailer{}
	failing := func(o *Options) { o.Mailer, o.Addresses = p, addresses{err: errDown} }
	withHarnessOptions(t, failing, func(t *testing.T, h *harness) {
		h.mail("1")
		h.start()
		pass(90 * time.Second)
		tries := peek(h.store, func() int { return h.store.mailbox["1"].Tries })
		if h.waiting() != 1 || tries != 2 || len(p.tried()) != 0 {
			t.Errorf("%d wait, %d tries, %d calls of the mailer", h.waiting(), tries, len(p.tried()))
		}
	})
}

// A mail server that hangs, refuses or fails does not affect deliveries, and a webhook is
// disabled with its mail stored.
func TestTroubleWithMailAffectsNoDelivery(t *testing.T) {
	p := &fakeMailer{takes: 20 * time.Second, fails: func(mail.Message) error { panic("in the mailer") }}
	withMailHarness(t, p, func(t *testing.T, h *harness) {
		h.node.options.Health = HealthRules{DisableAfter: time.Minute, MinFailures: 2}
		failing, healthy := h.register(), h.register()
		h.fromBad(failing, answers503)
		h.start()
		var events []signal.EventID
		for range 20 {
			sent := h.emit(10)
			pass(10 * time.Second)
			h.once(healthy, sent)
			events = append(events, sent...)
		}
		h.statuses(healthy, map[string]int{"succeeded": len(events)})
		h.mails(delivery.MailWebhookDisabled)
		if len(p.tried()) == 0 {
			t.Error("no mail was tried")
		}
		if h.store.hook(failing).Status != delivery.WebhookDisabled {
			t.Error("the failing webhook is not disabled")
		}
	})
}

// If Redis fails, nothing is sent twice in a row without a pause, and everything is sent.
func TestRedisFailsWhileMailsAreSent(t *testing.T) {
	p := &fakeMailer{}
	withMailHarness(t, p, func(t *testing.T, h *harness) {
		h.store.fail = failIf(false, func(op string) bool {
			return h.store.calls[op] < map[string]int{"DueMails": 5, "StoreMailOutcome": 3}[op]
		})
		h.mail("1")
		h.start()
		pass(2 * time.Minute)
		if h.waiting() != 0 {
			t.Error("the mail is not done")
		}
		if n := len(p.tried()); n != 3 {
			t.Errorf("sent %d times, want 3: its outcome could not be stored twice", n)
		}
	})
}

func TestMailsOfAnotherOwner(t *testing.T) {
	withMailHarness(t, &fakeMailer{}, func(t *testing.T, h *harness) {
		h.store.epoch = 2
		h.mail("1")
		h.start()
		pass(time.Second)
		h.losses(1)
	})
}
