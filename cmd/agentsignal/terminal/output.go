package terminal

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
)

// The forms of the output.
const (
	formText = "text"
	formJSON = "json"
	formCSV  = "csv"
)

// outputFlags are the flags that choose the form of the output.
type outputFlags struct {
	form string
	jq   string
	utc  bool
}

func (f *outputFlags) add(c *cobra.Command) {
	c.Flags().StringVarP(&f.form, "output", "o", formText, "form of the output: text, json or csv")
	c.Flags().StringVar(&f.jq, "jq", "", "print what this jq program makes of the JSON")
	c.Flags().BoolVar(&f.utc, "utc", false, "print times in UTC, and not in the zone of this machine")
}

// printer returns a printer of the form that was asked for.
func (f *outputFlags) printer(out io.Writer) (*printer, error) {
	p := &printer{out: out, form: f.form, format: formatter{f.utc, command.ShowsColours(out)}}
	switch f.form {
	case formText, formJSON, formCSV:
	default:
		return nil, fmt.Errorf("--output %q: must be text, json or csv", f.form)
	}
	if f.jq == "" {
		return p, nil
	}
	if f.form == formCSV {
		return nil, fmt.Errorf("--jq makes JSON: leave out --output csv, or use @csv in the program")
	}
	p.form = formJSON
	var err error
	p.jq, err = parseProgram(f.jq)
	return p, err
}

// printer prints results.
type printer struct {
	out    io.Writer
	form   string
	jq     *program // filters JSON, unless it is nil
	format formatter
}

// JSON prints a value of the service, unchanged but for spaces, or what the jq program makes of it.
func (p *printer) JSON(text []byte) error {
	if p.jq != nil {
		return p.jq.print(p.out, text)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := p.out.Write(b.Bytes())
	return err
}

// A column is one of a table: its name in headers, and its value of an item, of a type that formatter.cell
// knows.
type column[T any] struct {
	name  string
	value func(*T) any
}

// object is a result with the JSON it was read from.
type object interface{ Raw() json.RawMessage }

// list prints items in the form that was asked for. what names them if the list is empty.
func list[T any, P interface {
	*T
	object
}](p *printer, what string, columns []column[T], items []*T) error {
	if p.form == formJSON {
		all := make([]json.RawMessage, len(items))
		for i, item := range items {
			all[i] = P(item).Raw()
		}
		text, err := json.Marshal(all)
		if err != nil {
			return fmt.Errorf("print JSON: %w", err)
		}
		return p.JSON(text)
	}
	if len(items) == 0 && p.form == formText {
		p.note("There are no %s.", what)
		return nil
	}
	rows := make([][]any, len(items))
	for i, item := range items {
		for _, c := range columns {
			rows[i] = append(rows[i], c.value(item))
		}
	}
	var names []string
	for _, c := range columns {
		names = append(names, c.name)
	}
	return p.table(names, rows)
}

// table prints rows as CSV, or aligned for people.
func (p *printer) table(names []string, rows [][]any) error {
	if p.form == formCSV {
		w := csv.NewWriter(p.out)
		_ = w.Write(names) // Flush has the error
		for _, row := range rows {
			var record []string
			for _, v := range row {
				record = append(record, exact(v))
			}
			_ = w.Write(record)
		}
		w.Flush()
		return w.Error()
	}
	widths := make([]int, len(names))
	cells := make([][]cell, 0, len(rows)+1)
	head := make([]cell, len(names))
	for i, name := range names {
		head[i] = cell{text: strings.ReplaceAll(name, "_", " "), style: faint}
		widths[i] = utf8.RuneCountInString(name)
	}
	cells = append(cells, head)
	for _, row := range rows {
		line := make([]cell, len(row))
		for i, v := range row {
			line[i] = p.format.cell(v)
			head[i].right = head[i].right || line[i].right
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i].text))
		}
		cells = append(cells, line)
	}
	var b strings.Builder
	for _, line := range cells {
		for i, c := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
			switch {
			case c.right:
				b.WriteString(pad + p.format.paint(c))
			case i == len(line)-1:
				b.WriteString(p.format.paint(c))
			default:
				b.WriteString(p.format.paint(c) + pad)
			}
			if i < len(line)-1 {
				b.WriteString("  ")
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(p.out, b.String())
	return err
}

// note prints a sentence for people, or nothing in another form.
func (p *printer) note(format string, args ...any) {
	if p.form == formText {
		fmt.Fprintln(p.out, command.Printable(fmt.Sprintf(format, args...)))
	}
}
