package use

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

const (
	minRulerWidth = 21
	maxRulerWidth = 45
)

// watchColumn is a column of the list.
type watchColumn struct {
	name  string
	width int
	rank  int // columns of a lower one are left out last
	value func(w *watcher, s *client.Signal) any
}

const rulerColumn = "ruler"

// watchColumns are all columns of the list, in their order. 80 columns of a terminal have those of rank 1.
var watchColumns = []watchColumn{
	{"asset", 11, 1, func(_ *watcher, s *client.Signal) any { return s.Asset }},
	{"strategy", 14, 2, func(_ *watcher, s *client.Signal) any { return s.Strategy }},
	{"side", 7, 1, func(_ *watcher, s *client.Signal) any { return side(s) }},
	{rulerColumn, minRulerWidth, 1, nil},
	{"result", 8, 1, func(w *watcher, s *client.Signal) any { r, _ := w.board.result(s); return multiple{r} }},
	{"net", 8, 4, func(w *watcher, s *client.Signal) any { _, r := w.board.result(s); return multiple{r} }},
	{"chance", 7, 1, func(_ *watcher, s *client.Signal) any { return share{&s.Confidence} }},
	{"needs", 7, 3, func(_ *watcher, s *client.Signal) any { return share{s.Metadata.BreakEvenNet} }},
	{"price", 10, 1, func(w *watcher, s *client.Signal) any { return levelOf(s, w.board.price(s)) }},
	{"entry", 10, 5, func(_ *watcher, s *client.Signal) any { return levelOf(s, s.Entry) }},
	{"stop", 10, 8, func(_ *watcher, s *client.Signal) any { return levelOf(s, s.Stop) }},
	{"target", 10, 7, func(_ *watcher, s *client.Signal) any { return levelOf(s, s.Target) }},
	{"left", 11, 6, func(w *watcher, s *client.Signal) any {
		switch {
		case s.Status == "closed":
			return reason(s.CloseReason)
		case s.ExpiresAt.IsZero():
			return missing
		}
		return age(s.ExpiresAt.Sub(w.now))
	}},
	{"age", 4, 1, func(w *watcher, s *client.Signal) any {
		if s.Status == "closed" && s.ClosedAt != nil {
			return age(w.now.Sub(*s.ClosedAt))
		}
		return age(w.now.Sub(s.CreatedAt))
	}},
	{"agent", 7, 9, func(_ *watcher, s *client.Signal) any { return s.Agent }},
}

// side returns the direction of a signal as the console writes it: a text has none.
func side(s *client.Signal) any {
	switch {
	case s.Entry == nil:
		return cell{text: "text", style: faint}
	case s.Direction == "long":
		return cell{text: "▲ long", style: good}
	case s.Direction == "short":
		return cell{text: "▼ short", style: bad}
	}
	return s.Direction
}

// age returns a length of time in one unit.
func age(d time.Duration) cell {
	text := ""
	switch d = max(d, 0); {
	case d < time.Minute:
		text = fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		text = fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		text = fmt.Sprintf("%dh", int(d.Hours()))
	default:
		text = fmt.Sprintf("%dd", int(d.Hours()/24))
	}
	return cell{text: text, right: true}
}

// columns returns the columns that fit, of which the ruler has what the others leave.
func (w *watcher) columns() []watchColumn {
	room := w.width - 1
	fits := map[string]bool{}
	for rank := 1; rank <= len(watchColumns); rank++ {
		for _, c := range watchColumns {
			if c.rank == rank && room >= c.width+1 {
				room -= c.width + 1
				fits[c.name] = true
			}
		}
	}
	var list []watchColumn
	for _, c := range watchColumns {
		if c.name == rulerColumn {
			c.width = min(c.width+max(room, 0), maxRulerWidth)
		}
		if fits[c.name] {
			list = append(list, c)
		}
	}
	return list
}

// View implements tea.Model.
func (w *watcher) View() tea.View {
	v := tea.NewView(strings.Join(w.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "agentsignal watch"
	return v
}

// lines returns the lines of the screen, none wider than it.
func (w *watcher) lines() []string {
	var lines []string
	if w.detail != nil {
		lines = w.detailLines()
	} else {
		lines = append([]string{w.header(), w.head()}, w.body()...)
		for len(lines) < w.height-2 {
			lines = append(lines, "")
		}
		lines = append(lines, w.status(), w.help("q quit", "↑↓ select", "enter detail", "/ filter", "s sort", "r reverse",
			"space hold"))
	}
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, w.width, "…")
	}
	return lines[:min(len(lines), max(w.height, 0))]
}

// header returns the first line: where, in which state, how much.
func (w *watcher) header() string {
	open, ended := 0, 0
	simulated := false
	for _, s := range w.board.signals {
		if s.Status == "closed" {
			ended++
		} else {
			open++
		}
		simulated = simulated || s.Metadata.Source == "simulated"
	}
	text := w.printer.paint(w.connection()) + fmt.Sprintf("  %d open, %d closed", open, ended)
	if simulated {
		text += "  " + w.printer.paint(cell{text: "simulated prices", style: warn})
	}
	return text + "  " + w.printer.paint(cell{text: clean(w.address), style: faint})
}

// head returns the names of the columns, with the scale of the rulers.
func (w *watcher) head() string {
	line := " "
	for _, c := range w.columns() {
		name := cell{text: c.name}
		switch {
		case c.name == rulerColumn:
			name.text = w.printer.axis(w.scale, c.width)
		case !slices.Contains([]string{"asset", "strategy", "side", "agent", "left"}, c.name):
			name.right = true
		}
		name.style = faint
		line += w.fit(name, c.width) + " "
	}
	return line
}

// fit returns a cell as wide as its column.
func (w *watcher) fit(c cell, width int) string {
	c.text = ansi.Truncate(c.text, width, "…")
	pad := strings.Repeat(" ", width-ansi.StringWidth(c.text))
	if c.right {
		return pad + w.printer.paint(c)
	}
	return w.printer.paint(c) + pad
}

// bodyHeight is how many lines the list has.
func (w *watcher) bodyHeight() int { return max(w.height-4, 0) }

// body returns the part of the list in sight, with the selected signal.
func (w *watcher) body() []string {
	if len(w.list.ids) == 0 {
		switch {
		case w.loading || w.generated == 0:
			return []string{" loading"}
		case w.filter.text != "" || w.typing != nil:
			return []string{" no signal passes the filter"}
		}
		return []string{" no signals yet: agentsignal run makes one"}
	}
	// The titles of both groups are lines of the list.
	lines := len(w.list.ids) + 1
	second := -1
	first := w.list.open > 0
	if w.list.open < len(w.list.ids) && first {
		second, lines = w.list.open+1, lines+1
	}
	if i := slices.Index(w.list.ids, w.selected); i >= 0 {
		at := i + 1
		if second >= 0 && at >= second {
			at++
		}
		if w.top > at-1 && at <= 1 {
			w.top = 0 // with the title
		}
		w.top = min(max(w.top, at-w.bodyHeight()+1), at)
	}
	w.top = max(min(w.top, lines-w.bodyHeight()), 0)
	columns := w.columns()
	var body []string
	for at := w.top; at < min(w.top+w.bodyHeight(), lines); at++ {
		switch {
		case at == 0 && first:
			body = append(body, w.title("Open", w.list.open))
		case at == 0 || at == second:
			body = append(body, w.title("Closed", len(w.list.ids)-w.list.open))
		default:
			i := at - 1
			if second >= 0 && at > second {
				i--
			}
			body = append(body, w.row(columns, w.list.ids[i]))
		}
	}
	return body
}

func (w *watcher) title(name string, n int) string {
	return w.printer.paint(cell{text: fmt.Sprintf(" %s %d", name, n), style: strong})
}

// row returns the line of a signal.
func (w *watcher) row(columns []watchColumn, id string) string {
	s := w.board.signals[id]
	if s == nil {
		return ""
	}
	line := " "
	if id == w.selected {
		line = "›"
	}
	for i, c := range columns {
		if c.name == rulerColumn {
			r, _ := w.board.result(s)
			line += w.printer.ruler(s, r, w.scale, c.width) + " "
			continue
		}
		value := w.printer.cell(c.value(w, s))
		if i == 0 && id == w.selected {
			value.style = marked
		}
		line += w.fit(value, c.width) + " "
	}
	return line
}

// status returns the line above the help.
func (w *watcher) status() string {
	if f := w.typing; f != nil {
		text := " filter: " + f.text + "▏"
		if f.err != nil {
			return text + w.printer.paint(cell{text: "  " + clean(f.err.Error()), style: warn})
		}
		return text + w.printer.paint(cell{text: "  words, or --direction long, --min-confidence 0.4 …: enter keeps, esc drops",
			style: faint})
	}
	order := "sorted by " + sortings[w.sort].name
	if w.reverse {
		order += ", reversed"
	}
	parts := []string{order}
	if w.held {
		held := cell{text: fmt.Sprintf("held: %d new, %d closed", w.added, w.closed), style: warn}
		parts = []string{w.printer.paint(held), order}
	}
	if w.filter.text != "" {
		parts = append(parts, "filter: "+w.filter.text)
	}
	if w.lost != nil {
		parts = append(parts, clean(remote.Explain(w.lost.err).Error()))
	}
	if len(w.denied) > 0 {
		parts = append(parts, "the key has no scope for "+clean(strings.Join(w.denied, ", ")))
	}
	if w.fault != "" {
		parts = append(parts, clean(w.fault))
	}
	return " " + strings.Join(parts, " · ")
}

// help returns the line of the keys.
func (w *watcher) help(keys ...string) string {
	return w.printer.paint(cell{text: " " + strings.Join(keys, "  "), style: faint})
}

// detailLines returns the page of a signal.
func (w *watcher) detailLines() []string {
	d := w.detail
	s := w.board.signals[d.id]
	if s == nil {
		s = d.signal
	}
	var text bytes.Buffer
	if s != nil {
		p := *w.printer
		p.out = &text
		if target := resultAt(s, s.Target); target != nil {
			result, net := w.board.result(s)
			scale := rulerScale{-1 - rulerMargin, max(*target, 0) + rulerMargin}
			width := min(w.width-2, 2*maxRulerWidth)
			axis := cell{text: p.axis(scale, width), style: faint}
			fmt.Fprintf(&text, "%s\n%s\n", p.paint(axis), p.ruler(s, result, scale, width))
			if s.Status != "closed" {
				fmt.Fprintf(&text, "%s  %s  %s, %s net\n", p.paint(cell{text: "now        ", style: faint}),
					p.cell(levelOf(s, w.board.price(s))).text, p.paint(p.cell(multiple{result})), p.paint(p.cell(multiple{net})))
			}
		}
		_ = p.signal(s, d.changes()) // a buffer has no errors
	}
	switch {
	case d.err != nil:
		text.WriteString("\n" + remote.Explain(d.err).Error())
	case d.history == nil:
		text.WriteString("\nloading the history")
	}
	var lines []string
	for _, line := range strings.Split(strings.TrimRight(text.String(), "\n"), "\n") {
		lines = append(lines, strings.Split(ansi.Wrap(line, max(w.width-2, 1), ""), "\n")...)
	}
	room := max(w.height-3, 0)
	d.top = max(min(d.top, len(lines)-room), 0)
	page := []string{w.header(), ""}
	for _, line := range lines[d.top:min(d.top+room, len(lines))] {
		page = append(page, " "+line)
	}
	for len(page) < w.height-1 {
		page = append(page, "")
	}
	return append(page, w.help("q quit", "esc back", "↑↓ scroll"))
}

// changes returns the history with what came after it was read, or nil before it is known.
func (d *detail) changes() *client.History {
	if d.history == nil {
		return nil
	}
	h := *d.history
	var last time.Time
	if n := len(h.Changes); n > 0 {
		last = h.Changes[n-1].At
	}
	h.Changes = slices.Clone(h.Changes)
	for _, c := range d.live {
		if c.At.After(last) {
			h.Changes = append(h.Changes, c)
		}
	}
	return &h
}
