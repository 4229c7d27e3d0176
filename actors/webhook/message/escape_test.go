package message

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// TestTextsAreEscaped, not only the first line of a message: an agent may have them from anywhere.
func TestTextsAreEscaped(t *testing.T) {
	t.Parallel()
	event := strings.Replace(failed, `no\nprices`, `<a href=\"https://evil.example\">*prices*</a> & more`, 1)
	for format, want := range map[delivery.Format]string{
		delivery.Telegram: `&lt;a href="https://evil.example"&gt;*prices*&lt;/a&gt; &amp; more`,
		delivery.Slack:    `&lt;a href="https://evil.example"&gt;*prices*&lt;/a&gt; &amp; more`,
		delivery.Discord:  `\<a href="https\://evil.example"\>\*prices\*\</a\> & more`,
	} {
		var body struct {
			Text   string
			Embeds []struct{ Description string }
		}
		if err := json.Unmarshal([]byte(bodyOf(t, delivery.Webhook{Format: format, ChatID: "1"}, event)), &body); err != nil {
			t.Fatal(err)
		}
		for _, e := range body.Embeds {
			body.Text += e.Description
		}
		if !strings.Contains(body.Text, want) || strings.Contains(body.Text, "<a") && format != delivery.Discord {
			t.Errorf("%s gets %q, want %q in it", format, body.Text, want)
		}
	}
}
