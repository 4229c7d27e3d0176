package mail

import (
	"fmt"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// Message is a mail in plain text.
type Message struct {
	ID      string // the same for all tries
	To      string
	Subject string
	Text    string
	At      time.Time // of the event that it reports
}

// Compose returns the message of m to an address.
func Compose(m *delivery.Mail, to string) Message {
	l := Message{ID: m.ID, To: to, At: m.At}
	var b strings.Builder
	failing := InWords(m.At.Sub(m.Since))
	switch m.Kind {
	case delivery.MailWebhookFailing:
		l.Subject = "Your webhook is failing"
		fmt.Fprintf(&b, "All deliveries to your webhook %s have failed for %s.\n\n", m.Webhook, failing)
		writeFacts(&b, m)
		b.WriteString("\nIf the webhook goes on failing, it will be disabled. " +
			"The success of any delivery ends this,\nthat of a test event, too.\n")
	case delivery.MailWebhookDisabled:
		l.Subject = "Your webhook was disabled"
		fmt.Fprintf(&b, "Your webhook %s was disabled: all deliveries to it have failed for %s.\n\n",
			m.Webhook, failing)
		writeFacts(&b, m)
		b.WriteString("\nNothing is recorded for it any more. Deliveries that were pending have failed. When the\n" +
			"endpoint works again, set the status of the webhook to \"enabled\", and retry the failed\n" +
			"deliveries.\n")
	case delivery.MailWebhookRecovered:
		l.Subject = "Your webhook works again"
		fmt.Fprintf(&b, "A delivery to your webhook %s has succeeded, after %s of failures.\n\n", m.Webhook, failing)
		writeFacts(&b, m)
		b.WriteString("\nDeliveries that failed for good meanwhile are not sent again by themselves: retry them.\n")
	default:
		l.Subject = "About your webhook"
		writeFacts(&b, m)
	}
	l.Text = b.String()
	return l
}

func writeFacts(b *strings.Builder, m *delivery.Mail) {
	fmt.Fprintf(b, "  URL:            %s\n", oneLine(m.URL))
	if !m.Since.IsZero() {
		fmt.Fprintf(b, "  Failing since:  %s\n", m.Since.UTC().Format(time.RFC1123))
	}
	if m.Error != "" {
		fmt.Fprintf(b, "  Last error:     %s\n", oneLine(m.Error))
	}
}

// oneLine replaces control characters and line breaks, so that a value from outside cannot
// forge lines of the mail.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
}

// InWords returns d in whole hours, minutes or seconds.
func InWords(d time.Duration) string {
	n, unit := int(d/time.Hour), "hour"
	if n == 0 {
		n, unit = int(d/time.Minute), "minute"
	}
	if n == 0 {
		n, unit = int(d/time.Second), "second"
	}
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
