package terminal

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

func signalCommand(dataDir func() (string, error)) *cobra.Command {
	c := &cobra.Command{Use: "signal", Short: "Show a signal"}
	c.AddCommand(signalShow(dataDir))
	return c
}

func signalShow(dataDir func() (string, error)) *cobra.Command {
	var s session
	c := &cobra.Command{
		Use: "show SIGNAL_ID", Short: "Show a signal with what it rests on and what became of it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			shown, err := c.Signal(cmd.Context(), args[0])
			if err != nil {
				return remote.Explain(err)
			}
			if p.form != formText {
				return one(p, signalColumns, shown)
			}
			history, err := c.History(cmd.Context(), args[0])
			if err != nil {
				return remote.Explain(err)
			}
			return printSignal(p, shown, history)
		},
	}
	s.add(c, dataDir)
	return c
}

// one prints an item in a form for programs.
func one[T any, P interface {
	*T
	object
}](p *printer, columns []column[T], item *T) error {
	if p.form == formJSON {
		return p.JSON(P(item).Raw())
	}
	return list[T, P](p, "", columns, []*T{item})
}

// printSignal prints a signal for people, with its history unless that is nil.
func printSignal(p *printer, s *client.Signal, history *client.History) error {
	if _, err := io.WriteString(p.out, describe(p.format, s)); err != nil || history == nil {
		return err
	}
	var rows [][]any
	for _, e := range history.Changes {
		rows = append(rows, []any{e.At, e.Type, share{e.Confidence}, levelOf(s, e.Price)})
	}
	fmt.Fprintln(p.out)
	return p.table([]string{"at", "event", "confidence", "price"}, rows)
}

// describe returns the page of a signal.
func describe(f formatter, s *client.Signal) string {
	text := func(v any) string { return f.paint(f.cell(v)) }
	var b strings.Builder
	line := func(name, value string) {
		if value != missing {
			fmt.Fprintf(&b, "%s  %s\n", f.paint(cell{text: fmt.Sprintf("%-11s", name), style: faint}), value)
		}
	}
	line("signal", text(s.ID))
	line("asset", strings.Join([]string{text(s.Asset), text(direction(s.Direction)), text(s.Strategy),
		"(" + text(s.Agent) + ")"}, "  "))
	said := s.Confidence // what the interval and the break-even belong to
	moved := s.Status == "open" && s.Initial > 0 && s.Initial != s.Confidence
	if moved {
		said = s.Initial
	}
	confidence := text(share{&said})
	if v := s.Metadata.Interval; v != nil && len(*v) == 2 {
		confidence += fmt.Sprintf("  (95 %%: %s to %s)", text(share{&(*v)[0]}), text(share{&(*v)[1]}))
	}
	if v := s.Metadata.BreakEvenNet; v != nil {
		confidence += "  breaks even after costs at " + text(share{v})
	}
	line("confidence", confidence)
	if moved {
		line("chance now", text(share{&s.Confidence}))
	}
	line("expects", text(multiple{s.Metadata.ExpectedRNet}))
	line("entry", text(levelOf(s, s.Entry)))
	line("stop", text(levelOf(s, s.Stop)))
	line("target", text(levelOf(s, s.Target)))
	line("created", text(s.CreatedAt))
	switch s.Status {
	case "open":
		line("expires", text(s.ExpiresAt))
	case "closed":
		line("closed", strings.Join([]string{text(s.ClosedAt), text(reason(s.CloseReason)),
			"at " + text(levelOf(s, s.Exit))}, "  "))
		line("result", strings.Join([]string{text(multiple{s.R}), text(percent{s.PnLPercent}), "before costs"}, "  "))
	}
	line("prices", text(s.Metadata.Source))
	line("why", text(s.Metadata.Reasoning))
	if s.Metadata.Content != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(command.Printable(s.Metadata.Content)))
	}
	return b.String()
}
