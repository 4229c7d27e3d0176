package doctor

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	lineWidth  = 80
	stateWidth = 9  // with the space behind it
	nameWidth  = 18 // with the space behind it
)

// Print writes the report for people, in lines of 80 columns: a part for each area, and at last what is
// wrong.
func (r *Report) Print(w io.Writer, colours bool) error {
	var b strings.Builder
	paint := func(code, text string) string {
		if !colours {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	area := ""
	for i, c := range r.Checks {
		if c.Area != area {
			if i > 0 {
				b.WriteByte('\n')
			}
			area = c.Area
			b.WriteString(strings.ToUpper(area) + "\n")
		}
		word, code := string(c.State), map[State]string{OK: "32", Warning: "33", Fault: "1;31"}[c.State]
		if c.State == Fault {
			word = "FAULT" // without colours, too, it must not look like the others
		}
		state := paint(code, word) + strings.Repeat(" ", stateWidth-len(word))
		name := c.Name + strings.Repeat(" ", max(1, nameWidth-utf8.RuneCountInString(c.Name)))
		indent := stateWidth + nameWidth
		rest := lineWidth - indent
		if utf8.RuneCountInString(name) > nameWidth {
			b.WriteString(state + c.Name + "\n" + strings.Repeat(" ", indent))
		} else {
			b.WriteString(state + name)
		}
		lines := wrap(c.Fact, rest)
		for j, line := range lines {
			if j > 0 {
				b.WriteString(strings.Repeat(" ", indent))
			}
			b.WriteString(line + "\n")
		}
		for _, line := range wrap(c.Meaning, rest) {
			b.WriteString(strings.Repeat(" ", indent) + paint("2", line) + "\n")
		}
		for j, line := range wrap(c.Do, rest-3) {
			mark := "   "
			if j == 0 {
				mark = "-> "
			}
			b.WriteString(strings.Repeat(" ", indent) + mark + line + "\n")
		}
	}
	b.WriteByte('\n')
	for _, line := range wrap(r.summary(), lineWidth) {
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// summary names what is wrong.
func (r *Report) summary() string {
	var parts []string
	for _, kind := range []struct {
		state State
		count int
	}{{Fault, r.Faults}, {Warning, r.Warnings}} {
		if kind.count > 0 {
			parts = append(parts, fmt.Sprintf("%s: %s", counted(kind.count, string(kind.state)), r.named(kind.state)))
		}
	}
	if len(parts) == 0 {
		return "Nothing is wrong."
	}
	return strings.Join(parts, "; ") + "."
}

// named returns the names of the checks in a state, with their areas.
func (r *Report) named(state State) string {
	var names []string
	for _, c := range r.Checks {
		if c.State == state {
			names = append(names, c.Area+" "+c.Name)
		}
	}
	return strings.Join(names, ", ")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Err returns an error that names the faults, or nil without one.
func (r *Report) Err() error {
	if r.Faults == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", counted(r.Faults, string(Fault)), r.named(Fault))
}

// wrap breaks text at spaces into lines of at most width, but for longer words.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
