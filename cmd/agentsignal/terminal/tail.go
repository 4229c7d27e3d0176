package terminal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

// exitGap is the exit code of tail --strict after an interruption that may have lost events.
const exitGap = 3

// maxEarlier is how many earlier signals --last and --since look through.
const maxEarlier = 10_000

// tailer shows the stream.
type tailer struct {
	service  *client.Client
	channels []string
	filters  client.Filters
	last     int       // earlier signals that are shown first
	since    time.Time // from which on earlier signals are shown first
	count    int       // of events, after which it ends; 0: never
	strict   bool      // ends at a gap
	out      tailPrinter
	notes    io.Writer // about the connection

	shown map[string]bool // messages of the lists, by type and signal
	began bool            // what came before is shown
}

// errShown ends a stream of which enough is shown.
var errShown = errors.New("enough is shown")

// errGap ends a stream that must not have gaps.
var errGap = errors.New("events may be missing since an interruption")

func tailCommand(dataDir func() (string, error)) *cobra.Command {
	t := &tailer{}
	var s session
	var filters streamFilters
	var columns []string
	var since string
	var duration time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use: "tail", Short: "Show the stream of signals in the terminal", Args: cobra.NoArgs,
		Long: "Show the stream of a running service. It connects again after an interruption, and resumes where it was;\n" +
			"where that is not possible it says so, and with --strict it ends with exit code 3. A signal passes filters\n" +
			"by its values at its creation: all of its events pass, or none. With --output json each message is a line,\n" +
			"as the service sends it; those of --last and --since have no id, and are sought among the newest 10,000\n" +
			"signals.",
		Example: "  agentsignal tail --assets BTC,ETH --last 10\n" +
			"  agentsignal tail --channels signal.closed --since 3h --for 10m -o csv > closed.csv\n" +
			"  agentsignal tail -n 1 --channels signal.new --jq .data.signal_id",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if asJSON {
				s.output.form = formJSON
			}
			t.filters = filters.given(cmd.Flags())
			if err := t.configure(columns, since, s.output.form); err != nil {
				return err
			}
			if t.service, t.out.printer, err = s.begin(cmd); err != nil {
				return err
			}
			t.notes = cmd.ErrOrStderr()
			ctx := cmd.Context()
			if duration > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, duration)
				defer cancel()
			}
			return t.follow(ctx)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&t.channels, "channels", shownChannels, "message types to show")
	filters.add(f)
	f.IntVar(&t.last, "last", 0, "show so many earlier signals first")
	f.StringVar(&since, "since", "", "show earlier signals first, "+sinceUsage)
	f.IntVarP(&t.count, "count", "n", 0, "end after so many events")
	f.DurationVar(&duration, "for", 0, "end after this time")
	f.StringSliceVar(&columns, "columns", nil, "columns of text and CSV: "+strings.Join(columnNames(), ", "))
	f.BoolVar(&t.strict, "strict", false, "end with exit code 3 where an interruption may have lost events")
	f.BoolVar(&asJSON, "json", false, "the same as --output json")
	s.add(c, dataDir)
	return c
}

// shownChannels is the default of --channels.
var shownChannels = []string{"signal.new", "signal.updated", "signal.closed", "system.notification"}

// configure checks the flags.
func (t *tailer) configure(columns []string, since, form string) error {
	for _, name := range t.channels {
		if !slices.Contains(client.Channels, name) {
			return unknown("channels", "channel", name, client.Channels)
		}
	}
	if len(columns) == 0 {
		columns = shownColumns
		if form == formCSV {
			columns = columnNames()
		}
	}
	for _, name := range columns {
		i := slices.IndexFunc(tailColumns, func(c tailColumn) bool { return c.name == name })
		if i < 0 {
			return unknown("columns", "column", name, columnNames())
		}
		t.out.columns = append(t.out.columns, tailColumns[i])
	}
	if t.last < 0 || t.count < 0 {
		return errors.New("--last and --count must not be negative")
	}
	if since == "" {
		return nil
	}
	var err error
	if t.since, err = parseSince(since, time.Now(), time.Local); err != nil {
		return fmt.Errorf("--since: %w", err)
	}
	return nil
}

// unknown returns the error of a flag with a name that does not exist.
func unknown(flag, what, name string, known []string) error {
	near := cmp.Or(command.OrNearest(name, known), ".")
	return fmt.Errorf("--%s: no %s %q%s There are %s", flag, what, name, near, strings.Join(known, ", "))
}

// follow shows the stream until ctx ends or enough is shown.
func (t *tailer) follow(ctx context.Context) error {
	t.shown = map[string]bool{}
	if err := t.out.begin(); err != nil {
		return err
	}
	channels := t.channels
	if t.completes(channels) && !slices.Contains(channels, "signal.new") {
		channels = append(slices.Clone(channels), "signal.new")
	}
	s := &client.Stream{Client: t.service, Channels: channels, Filters: t.filters,
		Interrupted: func(err error, pause time.Duration) {
			fmt.Fprintf(t.notes, "agentsignal: %v; trying again in %v\n", remote.Explain(err),
				pause.Round(100*time.Millisecond))
		}}
	err := s.Follow(ctx, func(m *client.Message) error { return t.receive(ctx, m) })
	switch {
	case errors.Is(err, errGap):
		return &command.Exit{Code: exitGap, Err: err}
	case ctx.Err() != nil, errors.Is(err, errShown):
		return nil
	}
	return remote.Explain(err)
}

// receive shows a message of the stream.
func (t *tailer) receive(ctx context.Context, m *client.Message) error {
	if sub := m.Subscribed; sub != nil {
		if err := t.subscribed(m); err != nil {
			return err
		}
		if sub.Gap && t.strict {
			return errGap
		}
		if t.began {
			return nil
		}
		t.began = true // the stream has all that the lists will not have
		t.knowOpen(ctx, sub.Channels)
		return t.earlier(ctx)
	}
	if m.Signal != nil && m.Type == "signal.new" && !slices.Contains(t.channels, m.Type) {
		t.out.known.add(m.Signal)
		return nil
	}
	if m.Signal != nil && t.shown[m.Type+" "+m.Signal.ID] {
		return nil // it is in the list, too
	}
	return t.show(m)
}

// subscribed says what the stream shows.
func (t *tailer) subscribed(m *client.Message) error {
	shown := slices.DeleteFunc(slices.Clone(m.Subscribed.Channels), func(name string) bool {
		return !slices.Contains(t.channels, name)
	})
	text := "subscribed to " + strings.Join(shown, ", ")
	if denied := m.Subscribed.Denied; len(denied) > 0 {
		text += "; the key has no scope for " + strings.Join(denied, ", ")
	}
	if m.Subscribed.Gap {
		text += "; events since the interruption may be missing: see agentsignal signals --since"
	}
	if p := t.out.printer; p.form == formJSON && p.jq == nil {
		if err := t.out.json(m.JSON); err != nil || !m.Subscribed.Gap {
			return err
		}
	}
	_, err := fmt.Fprintf(t.notes, "agentsignal: %s\n", command.Printable(text))
	return err
}

// maxOpen is how many signals that are open at the start are remembered.
const maxOpen = 1000

// completes reports whether rows show more of a closing than its message has: what only the creation has. For these, signals
// that are open at the start are read, and messages of new ones are remembered even if they are not shown.
func (t *tailer) completes(channels []string) bool {
	return t.out.printer.form != formJSON && slices.Contains(channels, "signal.closed")
}

// knowOpen remembers the newest open signals for rows of their closings. Without an answer some of their cells are empty.
func (t *tailer) knowOpen(ctx context.Context, channels []string) {
	if !t.completes(channels) {
		return
	}
	q := t.query()
	q.Status = "open"
	for s, err := range t.service.Signals(ctx, q, maxOpen) {
		if err != nil {
			return
		}
		t.out.known.add(s)
	}
}

// query selects signals by those of the filters that lists have.
func (t *tailer) query() client.SignalQuery {
	return client.SignalQuery{Asset: only(t.filters.Assets), Agent: only(t.filters.Agents),
		Strategy: only(t.filters.Strategies), Direction: only(t.filters.Directions)}
}

// earlier shows what --last and --since ask for. The stream is subscribed already, so that nothing lies
// between the two.
func (t *tailer) earlier(ctx context.Context) error {
	if t.last == 0 && t.since.IsZero() {
		return nil
	}
	q := t.query()
	q.Since = t.since
	var messages []*client.Message
	n := 0
	for s, err := range t.service.Signals(ctx, q, maxEarlier) {
		if err != nil {
			return remote.Explain(err)
		}
		if !t.filters.Passes(s) {
			continue
		}
		created := *s
		created.Confidence, created.Exit, created.PnLPercent, created.CloseReason = s.Initial, nil, nil, ""
		messages = append(messages, &client.Message{Type: "signal.new", At: s.CreatedAt, Signal: &created})
		if s.ClosedAt != nil {
			messages = append(messages, &client.Message{Type: "signal.closed", At: *s.ClosedAt, Signal: s})
		}
		if n++; n == t.last {
			break
		}
	}
	slices.SortStableFunc(messages, func(a, b *client.Message) int { return a.At.Compare(b.At) })
	for _, m := range messages {
		t.shown[m.Type+" "+m.Signal.ID] = true
		t.out.known.add(m.Signal)
		if !slices.Contains(t.channels, m.Type) {
			continue
		}
		text, err := json.Marshal(map[string]any{"type": m.Type, "timestamp": m.At, "data": m.Signal.Raw()})
		if err != nil {
			return err
		}
		m.JSON = text
		if err := t.show(m); err != nil {
			return err
		}
	}
	return nil
}

// only returns the only element of list, or "".
func only(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return ""
}

// show prints a message. It returns errShown if enough is shown.
func (t *tailer) show(m *client.Message) error {
	isEvent, err := t.out.show(m)
	if err != nil || !isEvent || t.count == 0 {
		return err
	}
	if t.count--; t.count == 0 {
		return errShown
	}
	return nil
}
