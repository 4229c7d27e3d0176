package message

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// note is what a person reads of an event.
type note struct {
	title string
	lines []string
	tone  tone
	at    string // the time of the event
}

// tone is the colour of a note.
type tone byte

const (
	neutral tone = iota
	rising
	falling
	alarm
)

// Limits of a note in UTF-16 units, which is how Slack, Discord and Telegram count. Escaped, and in the three
// bytes that a unit may take in UTF-8, they are below those of all services: 150 of a title at Slack, 256 at
// Discord; 3,000 of a text at Slack, 4,096 at Discord and Telegram, and 4,096 bytes at ntfy.
const (
	maxTitle = 120
	maxText  = 1300
)

// members are those of an event's payload.
type members map[string]any

func (m members) text(name string) string {
	s, _ := m[name].(string)
	return oneLine(s)
}

func (m members) number(name string) *float64 {
	if x, ok := m[name].(float64); ok {
		return &x
	}
	return nil
}

func (m members) object(name string) members {
	o, _ := m[name].(map[string]any)
	return o
}

// describe returns the note of an event.
func describe(event members) note {
	d := event.object("data")
	n := note{at: event.text("created_at")}
	agent, asset := d.text("agent_id"), d.text("asset")
	add := func(parts ...string) {
		for _, p := range parts {
			if p != "" {
				n.lines = append(n.lines, p)
			}
		}
	}
	switch kind := signal.EventType(event.text("type")); kind {
	case signal.SignalCreated:
		n.title, n.tone = "New: "+direction(asset, d), toneOf(d)
		add(maker(d), confidence(d), levels(asset, d, "entry_price", "stop_loss", "take_profit"))
		if d.object("metadata").text("source") == "simulated" {
			add("Simulated prices")
		}
	case signal.SignalUpdated:
		n.title, n.tone = direction(asset, d)+": confidence changed", toneOf(d)
		line := confidence(d)
		if was := d.object("previous").number("confidence"); was != nil {
			line += ", was " + share(*was)
		}
		add(maker(d), line, levels(asset, d, "entry_price", "stop_loss", "take_profit"))
	case signal.SignalClosed:
		reason := strings.ReplaceAll(d.text("close_reason"), "_", " ")
		if signal.CloseReason(d.text("close_reason")) == signal.AgentExit {
			reason = "its agent"
		}
		n.title = fmt.Sprintf("Closed: %s by %s", asset, reason)
		if p := d.number("pnl_percent"); p != nil {
			n.title += fmt.Sprintf(", %+.2f %%", *p)
			add("Result before costs")
			if n.tone = rising; *p < 0 {
				n.tone = falling
			}
		}
		add(levels(asset, d, "entry_price", "exit_price"), lasted(d))
	case signal.AgentStarted:
		n.title = fmt.Sprintf("%s runs %s on %s", agent, d.text("strategy"), asset)
	case signal.AgentCompleted:
		n.title = fmt.Sprintf("%s has run %s on %s", agent, d.text("strategy"), asset)
		if d.text("signal_id") == "" {
			add("It has no signal")
		}
	case signal.AgentFailed:
		n.title, n.tone = fmt.Sprintf("%s failed: %s", agent, d.text("error_code")), alarm
		add(d.text("message"))
	case signal.WebhookTest:
		n.title = "Test"
		add(d.text("message"))
	case signal.LogCheckpoint:
		n.title = "Checkpoint of the record"
		if leaves := d.number("leaves"); leaves != nil {
			add(fmt.Sprintf("%.0f leaves, signed at %s", *leaves, d.text("signed_at")))
		}
	default:
		n.title = string(kind)
	}
	return n
}

// direction returns the asset and the direction of a signal.
func direction(asset string, d members) string {
	return strings.TrimSpace(asset + " " + d.text("direction"))
}

func toneOf(d members) tone {
	switch signal.Direction(d.text("direction")) {
	case signal.Long:
		return rising
	case signal.Short:
		return falling
	}
	return neutral
}

// maker returns the agent and the strategy of a signal.
func maker(d members) string {
	return strings.TrimSpace(d.text("agent_id") + " " + d.text("strategy"))
}

// confidence returns the confidence of a signal. That of texts is no probability.
func confidence(d members) string {
	c := d.number("confidence")
	switch {
	case c == nil:
		return ""
	case d.text("agent_id") == "seo":
		return share(*c) + " of the checks passed"
	}
	return "Confidence " + share(*c)
}

func share(x float64) string { return number(100*x, 1) + " %" }

// priceNames are the names of prices for people.
var priceNames = map[string]string{
	"entry_price": "Entry", "stop_loss": "stop", "take_profit": "target", "exit_price": "exit",
}

// levels returns the given prices of a signal that it has.
func levels(asset string, d members, names ...string) string {
	var among []*float64
	for _, name := range names {
		among = append(among, d.number(name))
	}
	var parts []string
	for i, p := range among {
		if p != nil {
			parts = append(parts, priceNames[names[i]]+" "+assets.PriceText(asset, *p, among...))
		}
	}
	return strings.Join(parts, ", ")
}

// lasted returns how long a signal was open.
func lasted(d members) string {
	m := d.number("duration_minutes")
	if m == nil {
		return ""
	}
	if *m < 60 {
		return fmt.Sprintf("Open for %.0f min", *m)
	}
	open := time.Duration(*m) * time.Minute
	return fmt.Sprintf("Open for %d h %d min", open/time.Hour, open%time.Hour/time.Minute)
}

// head returns the title within its limit.
func (n *note) head() string { return cut(n.title, maxTitle) }

// text returns the lines within their limit.
func (n *note) text() string { return cut(strings.Join(n.lines, "\n"), maxText) }

// cut returns s with at most limit UTF-16 units, the last of them an ellipsis if it was longer.
func cut(s string, limit int) string {
	units := 0
	end := -1 // where the ellipsis goes
	for i, r := range s {
		n := max(utf16.RuneLen(r), 1)
		if units+n > limit {
			if end < 0 {
				end = i
			}
			return s[:end] + "…"
		}
		if units+n > limit-1 && end < 0 {
			end = i
		}
		units += n
	}
	return s
}

// oneLine replaces control characters and line breaks by spaces.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
}
