package mail

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// writtenAt is the time of mails.
var writtenAt = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

func TestTextOfMails(t *testing.T) {
	t.Parallel()
	m := delivery.Mail{
		ID:      "7",
		Kind:    delivery.MailWebhookFailing,
		Webhook: "whk_1",
		URL:     "https://example.com/hook",
		Error:   "status 503",
		Since:   writtenAt.Add(-24 * time.Hour),
		At:      writtenAt,
	}
	got := Compose(&m, "ann@example.com")
	want := Message{ID: "7", To: "ann@example.com", Subject: "Your webhook is failing", At: writtenAt}
	want.Text = `All deliveries to your webhook whk_1 have failed for 24 hours.

  URL:            https://example.com/hook
  Failing since:  Fri, 20 Nov 2026 09:30:00 UTC
  Last error:     status 503

If the webhook goes on failing, it will be disabled. The success of any delivery ends this,
that of a test event, too.
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for d, want := range map[time.Duration]string{
		0:                 "0 seconds",
		time.Second:       "1 second",
		59 * time.Second:  "59 seconds",
		time.Minute:       "1 minute",
		59 * time.Minute:  "59 minutes",
		time.Hour:         "1 hour",
		119 * time.Minute: "1 hour",
		72 * time.Hour:    "72 hours",
	} {
		if got := InWords(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
