package terminal

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/http/client"
)

// tailPrinter prints the messages of the stream.
type tailPrinter struct {
	printer *printer
	columns []tailColumn
	known   knownSignals
}

// begin prints what stands before the first message.
func (p *tailPrinter) begin() error {
	if p.printer.form != formCSV {
		return nil
	}
	var names []string
	for _, c := range p.columns {
		names = append(names, c.name)
	}
	return p.record(names)
}

// show prints a message, and reports whether it is an event.
func (p *tailPrinter) show(m *client.Message) (isEvent bool, err error) {
	row, isEvent := p.row(m)
	switch {
	case p.printer.form == formJSON && (p.printer.jq == nil || isEvent):
		err = p.json(m.JSON)
	case !isEvent:
	case p.printer.form == formCSV:
		var values []string
		for _, c := range p.columns {
			values = append(values, exact(c.value(row)))
		}
		err = p.record(values)
	default:
		_, err = fmt.Fprintln(p.printer.out, p.line(row))
	}
	return isEvent, err
}

// json prints a message as JSON on one line, or what the jq program makes of it.
func (p *tailPrinter) json(text []byte) error {
	if p.printer.jq != nil {
		return p.printer.JSON(text)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return fmt.Errorf("print message: %w", err)
	}
	_, err := fmt.Fprintf(p.printer.out, "%s\n", b.Bytes())
	return err
}

// record prints a line of CSV.
func (p *tailPrinter) record(values []string) error {
	w := csv.NewWriter(p.printer.out)
	_ = w.Write(values) // Flush has the error
	w.Flush()
	return w.Error()
}

// row returns the row of a message, and reports whether it is an event.
func (p *tailPrinter) row(m *client.Message) (*tailRow, bool) {
	r := &tailRow{at: m.At, event: m.Type}
	switch {
	case m.Signal != nil:
		r.event = strings.TrimPrefix(m.Type, "signal.")
		r.Signal = *m.Signal
		if r.event != "closed" {
			r.confidence = &r.Signal.Confidence
			p.known.add(m.Signal)
			break
		}
		if k := p.known.signals[m.Signal.ID]; k != nil { // the message has neither of these
			r.Agent, r.Strategy, r.Direction, r.Stop, r.Target = k.Agent, k.Strategy, k.Direction, k.Stop, k.Target
		}
	case m.Agent != nil:
		r.event, r.Agent, r.run, r.text = "agent", m.Agent.Agent, m.Agent.Run, m.Agent.Agent+" "+m.Agent.Status
	case m.Notice != nil:
		r.event, r.text = "notice", m.Notice.Severity+": "+m.Notice.Message
	case m.Price != nil:
		r.event, r.Asset, r.price = "price", m.Price.Asset, &m.Price.Price
	default:
		return nil, false
	}
	return r, true
}

// line returns a row as text.
func (p *tailPrinter) line(r *tailRow) string {
	columns := p.columns
	if r.text != "" { // what is no signal has none of the other columns
		columns = []tailColumn{tailColumns[0], tailColumns[1], tailColumns[len(tailColumns)-1]}
	}
	var b strings.Builder
	blank := 0 // spaces that belong before the next text
	for _, c := range columns {
		cell := p.printer.format.cell(c.value(r))
		if cell.text == missing {
			cell.text = ""
		}
		pad := max(c.width-utf8.RuneCountInString(cell.text), 0)
		if cell.right {
			blank += pad
			pad = 0
		}
		if cell.text != "" {
			b.WriteString(strings.Repeat(" ", blank) + p.printer.format.paint(cell))
			blank = 0
		}
		blank += pad + 2
	}
	return b.String()
}

// tailRow is an event as it is shown.
type tailRow struct {
	at    time.Time
	event string
	client.Signal
	confidence *float64
	price      *float64 // of market.price
	run        string
	text       string // of what is no signal
}

// tailColumn is a column of tail.
type tailColumn struct {
	name  string
	width int // the least one, in text
	value func(*tailRow) any
}

// tailColumns are all columns.
var tailColumns = []tailColumn{
	{"time", 19, func(r *tailRow) any { return r.at }},
	{"event", 7, func(r *tailRow) any { return r.event }},
	{"signal_id", 30, func(r *tailRow) any { return r.ID }},
	{"agent", 7, func(r *tailRow) any { return r.Agent }},
	{"asset", 11, func(r *tailRow) any { return r.Asset }},
	{"direction", 5, func(r *tailRow) any { return direction(r.Direction) }},
	{"strategy", 15, func(r *tailRow) any { return r.Strategy }},
	{"confidence", 7, func(r *tailRow) any { return share{r.confidence} }},
	{"expected_r", 7, func(r *tailRow) any { return multiple{r.Metadata.ExpectedRNet} }},
	{"entry", 10, func(r *tailRow) any {
		if r.price != nil {
			return price{r.price, r.Asset, nil}
		}
		return levelOf(&r.Signal, r.Entry)
	}},
	{"stop", 10, func(r *tailRow) any { return levelOf(&r.Signal, r.Stop) }},
	{"target", 10, func(r *tailRow) any { return levelOf(&r.Signal, r.Target) }},
	{"exit", 10, func(r *tailRow) any { return levelOf(&r.Signal, r.Exit) }},
	{"pnl", 8, func(r *tailRow) any { return percent{r.PnLPercent} }},
	{"reason", 11, func(r *tailRow) any { return reason(r.CloseReason) }},
	{"run_id", 30, func(r *tailRow) any { return r.run }},
	{"text", 0, func(r *tailRow) any { return r.text }},
}

// shownColumns is the default of --columns in text.
var shownColumns = []string{"time", "event", "asset", "direction", "strategy", "confidence", "entry", "stop", "target", "exit",
	"pnl", "reason"}

func columnNames() []string {
	var names []string
	for _, c := range tailColumns {
		names = append(names, c.name)
	}
	return names
}

// knownSignals are the newest signals of which something was said: the end of a signal is shown with what only its
// creation has.
type knownSignals struct {
	signals map[string]*client.Signal
	order   []string // of signals
}

// maxKnown is how many signals are remembered.
const maxKnown = 10_000

// add remembers a signal.
func (k *knownSignals) add(s *client.Signal) {
	if k.signals == nil {
		k.signals = map[string]*client.Signal{}
	}
	if k.signals[s.ID] == nil {
		k.order = append(k.order, s.ID)
		if len(k.order) > maxKnown {
			delete(k.signals, k.order[0])
			k.order = k.order[1:]
		}
	}
	k.signals[s.ID] = s
}
