package use

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/pflag"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

const (
	maxWatchedOpen   = 2000 // open signals of the first list
	maxWatchedClosed = 100  // closed ones
	relistPause      = 15 * time.Second
	maxFilterText    = 200
)

// The messages of the model, beside those of the terminal.
type (
	// arrived are messages of the streams and interruptions in their order.
	arrived []any
	// interrupted is the loss of the connection.
	interrupted struct {
		err   error
		until time.Time // the next attempt
	}
	// pricesFailed reports that there will be no prices.
	pricesFailed struct{ err error }
	// ended is the end of the stream that a new connection would not change.
	ended struct{ err error }
	// listed answers a question for the list.
	listed struct {
		generation int
		signals    []*client.Signal
		err        error
	}
	// shown answers a question for one signal.
	shown struct {
		id      string
		signal  *client.Signal
		history *client.History
		err     error
	}
	// relist asks for the list again.
	relist struct{ generation int }
	// ticked is the time, once a second.
	ticked time.Time
)

// questions is what the model asks the service. None of them waits.
type questions struct {
	list   func(generation int) tea.Cmd
	signal func(id string) tea.Cmd
	prices func(names []string) // of these assets from now on
}

// watcher is the model of watch: what is known, what is shown of it, and where the reader is.
type watcher struct {
	ask     questions
	printer *printer
	filters client.Filters // of the stream
	address string
	now     time.Time
	width   int
	height  int

	board *board
	list  order
	scale rulerScale

	state     string // of the connection
	lost      *interrupted
	gap       time.Time // of the last gap
	denied    []string  // channels that the key has no scope for
	fault     string    // of the list or the prices
	generated int       // of the list that was asked for last
	loading   bool
	meanwhile []*client.Message // since then
	doubtful  map[string]bool   // signals from before a gap that nothing confirmed yet
	gone      []string          // signals that the list after a gap no longer had

	selected       string // ID, or "" before the first move
	top            int    // first line of the list that is in sight
	sort           int
	reverse        bool
	held           bool
	added, closed  int // what has happened since the list is held
	filter, typing *textFilter
	detail         *detail
	failure        error // that ended the stream
}

// detail is the page of one signal.
type detail struct {
	id      string
	signal  *client.Signal
	history *client.History
	live    []client.Change // of the stream
	err     error
	top     int
}

func newWatcher(ask questions, p *printer, filters client.Filters, address string, now time.Time) *watcher {
	return &watcher{ask: ask, printer: p, filters: filters, address: address, now: now, board: newBoard(),
		scale: fitRuler(nil), state: "connecting", width: 80, height: 24, filter: &textFilter{}}
}

// Init implements tea.Model.
func (w *watcher) Init() tea.Cmd { return tick() }

func tick() tea.Cmd { return tea.Tick(time.Second, func(t time.Time) tea.Msg { return ticked(t) }) }

// Update implements tea.Model.
func (w *watcher) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case tea.WindowSizeMsg:
		w.width, w.height = m.Width, m.Height
	case tea.KeyPressMsg:
		return w, w.pressed(m)
	case tea.PasteMsg:
		if w.typing != nil {
			w.typed(w.typing.text + m.Content)
		}
	case ticked:
		w.now = time.Time(m)
		return w, tick()
	case arrived:
		return w, w.receive(m)
	case listed:
		return w, w.take(m)
	case relist:
		if m.generation == w.generated {
			return w, w.load(false)
		}
	case shown:
		if d := w.detail; d != nil && d.id == m.id {
			d.signal, d.history, d.err = m.signal, m.history, m.err
			if m.signal != nil && w.board.signals[m.id] != nil {
				w.board.put(m.signal)
			}
		}
	case ended:
		w.failure = m.err
		return w, tea.Quit
	}
	return w, nil
}

// receive takes what the streams brought.
func (w *watcher) receive(batch arrived) tea.Cmd {
	var do tea.Cmd
	moved := false
	for _, m := range batch {
		switch m := m.(type) {
		case *interrupted:
			w.state, w.lost = "reconnecting", m
		case pricesFailed:
			w.fault = "no prices: " + remote.Explain(m.err).Error()
		case *client.Message:
			if m.Subscribed != nil {
				do = w.subscribed(m)
				continue
			}
			e := w.board.apply(m)
			if w.loading && m.Signal != nil {
				w.meanwhile = append(w.meanwhile, m)
			}
			if m.Signal != nil {
				delete(w.doubtful, m.Signal.ID)
			}
			moved = moved || e == added || e == closed || sortings[w.sort].name != "newest"
			w.detail.add(m)
		}
	}
	w.board.trim(w.list.ids)
	if moved {
		w.arrange(false)
	}
	return do
}

// subscribed notes what the stream has from now on, and asks for the list if it may have missed something.
func (w *watcher) subscribed(m *client.Message) tea.Cmd {
	first := w.generated == 0
	w.state, w.lost, w.denied = "live", nil, m.Subscribed.Denied
	if m.Subscribed.Gap {
		w.gap = m.At
	}
	if first || m.Subscribed.Gap {
		return w.load(m.Subscribed.Gap)
	}
	return nil
}

// load asks for the list; after a gap no signal is certain any more.
func (w *watcher) load(gap bool) tea.Cmd {
	w.generated++
	w.loading = true
	if gap {
		w.doubtful = map[string]bool{}
		for id := range w.board.signals {
			w.doubtful[id] = true
		}
	}
	return w.ask.list(w.generated)
}

// take takes the list. What the stream brought meanwhile may be newer.
func (w *watcher) take(m listed) tea.Cmd {
	if m.generation != w.generated {
		return nil
	}
	if m.err != nil {
		w.fault = "the list cannot be loaded: " + remote.Explain(m.err).Error()
		return tea.Tick(relistPause, func(time.Time) tea.Msg { return relist{m.generation} })
	}
	w.loading, w.fault = false, ""
	for _, s := range m.signals {
		if w.filters.Passes(s) {
			delete(w.doubtful, s.ID)
			w.board.put(s)
		}
	}
	for _, e := range w.meanwhile {
		w.board.apply(e)
	}
	for id := range w.doubtful {
		w.gone = append(w.gone, id)
	}
	w.meanwhile, w.doubtful = nil, nil
	w.arrange(false)
	return nil
}

// add adds an event of the signal to its page, if that is open.
func (d *detail) add(m *client.Message) {
	if d == nil || m.Signal == nil || m.Signal.ID != d.id {
		return
	}
	c := client.Change{At: m.At, Type: strings.TrimPrefix(m.Type, "signal.")}
	switch c.Type {
	case "updated":
		c.Confidence = &m.Signal.Confidence
	case "closed":
		c.Price = m.Signal.Exit
	default:
		return
	}
	d.live = append(d.live, c)
}

// passes reports whether the list has a signal.
func (w *watcher) passes(s *client.Signal) bool {
	f := w.filter
	if w.typing != nil {
		f = w.typing
	}
	return f.passes(s)
}

// arrange lists the signals again. A list that is held stays, unless the reader asked for another, and
// what would change is counted.
func (w *watcher) arrange(asked bool) {
	if w.held && !asked {
		next := w.board.arrange(sortings[w.sort], w.reverse, w.passes)
		was := map[string]bool{} // whether it is listed as an open one
		for i, id := range w.list.ids {
			was[id] = i < w.list.open
		}
		w.added, w.closed = 0, 0
		for i, id := range next.ids {
			open, known := was[id]
			switch {
			case !known:
				w.added++
			case open && i >= next.open:
				w.closed++
			}
		}
		return
	}
	for _, id := range w.gone {
		delete(w.board.signals, id)
	}
	w.gone, w.added, w.closed = nil, 0, 0
	w.list = w.board.arrange(sortings[w.sort], w.reverse, w.passes)
	var targets []float64
	var names []string
	for i, id := range w.list.ids {
		s := w.board.signals[id]
		if t := resultAt(s, s.Target); t != nil && i < w.list.open+200 { // those beyond are far below
			targets = append(targets, *t)
		}
		if i < w.list.open && s.Entry != nil && !slices.Contains(names, s.Asset) && len(names) < maxPriced {
			names = append(names, s.Asset)
		}
	}
	w.scale = fitRuler(targets)
	w.ask.prices(names)
}

// pressed does what a key stands for.
func (w *watcher) pressed(k tea.KeyPressMsg) tea.Cmd {
	key := k.String()
	if key == "ctrl+c" {
		return tea.Quit
	}
	switch {
	case w.typing != nil:
		w.edit(k)
		return nil
	case w.detail != nil:
		return w.inDetail(key)
	}
	page := max(w.bodyHeight()-1, 1)
	switch key {
	case "q":
		return tea.Quit
	case "down", "j":
		w.move(1)
	case "up", "k":
		w.move(-1)
	case "pgdown", "ctrl+d":
		w.move(page)
	case "pgup", "ctrl+u":
		w.move(-page)
	case "home", "g":
		w.move(-len(w.list.ids))
	case "end", "G":
		w.move(len(w.list.ids))
	case "esc":
		w.selected, w.top = "", 0
	case "enter":
		return w.open()
	case "s":
		w.sort = (w.sort + 1) % len(sortings)
		w.arrange(true)
	case "r":
		w.reverse = !w.reverse
		w.arrange(true)
	case "space":
		w.held = !w.held
		if !w.held {
			w.arrange(true)
		}
	case "u":
		w.arrange(true)
	case "/":
		w.typing = &textFilter{}
		*w.typing = *w.filter
	}
	return nil
}

// inDetail does what a key stands for on the page of a signal.
func (w *watcher) inDetail(key string) tea.Cmd {
	d := w.detail
	switch key {
	case "q":
		return tea.Quit
	case "esc", "enter", "left", "backspace":
		w.detail = nil
	case "down", "j":
		d.top++
	case "up", "k":
		d.top--
	case "pgdown", "space":
		d.top += w.height - 3
	case "pgup":
		d.top -= w.height - 3
	case "home", "g":
		d.top = 0
	}
	return nil
}

// move selects another signal of the list.
func (w *watcher) move(by int) {
	if len(w.list.ids) == 0 {
		return
	}
	i := slices.Index(w.list.ids, w.selected)
	if i < 0 && by > 0 {
		by--
	}
	w.selected = w.list.ids[min(max(max(i, 0)+by, 0), len(w.list.ids)-1)]
}

// open shows the page of the selected signal, or of the first one if the list has none that is selected.
func (w *watcher) open() tea.Cmd {
	if !slices.Contains(w.list.ids, w.selected) {
		if len(w.list.ids) == 0 {
			return nil
		}
		w.selected = w.list.ids[0]
	}
	w.detail = &detail{id: w.selected}
	return w.ask.signal(w.selected)
}

// edit takes a key of the filter.
func (w *watcher) edit(k tea.KeyPressMsg) {
	switch k.String() {
	case "enter":
		w.filter, w.typing = w.typing, nil
	case "esc":
		w.typing = nil
		w.arrange(true)
	case "ctrl+u":
		w.typed("")
	case "backspace":
		text := []rune(w.typing.text)
		w.typed(string(text[:max(len(text)-1, 0)]))
	default:
		if k.Text != "" {
			w.typed(w.typing.text + k.Text)
		}
	}
}

// typed lists what passes the filter that has been typed so far.
func (w *watcher) typed(text string) {
	w.typing.set(ansi.Truncate(command.Printable(text), maxFilterText, ""))
	w.arrange(true)
}

// textFilter is a filter that is typed: words, and the flags of the stream's filters.
type textFilter struct {
	text    string
	words   []string
	filters client.Filters
	err     error // of the text; then the others are those of the last one that was right
}

// set reads the text of the filter.
func (f *textFilter) set(text string) {
	var flags streamFilters
	set := pflag.NewFlagSet("filter", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	flags.add(set)
	f.text = text
	if f.err = set.Parse(strings.Fields(text)); f.err == nil {
		f.words, f.filters = set.Args(), flags.given(set)
	}
}

// passes reports whether each word begins one of the words of a signal, and the flags accept it.
func (f *textFilter) passes(s *client.Signal) bool {
	for _, word := range f.words {
		begins := func(text string) bool { return strings.HasPrefix(strings.ToLower(text), strings.ToLower(word)) }
		if !slices.ContainsFunc([]string{s.Asset, s.Agent, s.Strategy, s.Direction, s.Status, s.CloseReason, s.ID}, begins) {
			return false
		}
	}
	return f.filters.Passes(s)
}

// connection describes the stream, and in which style it is shown.
func (w *watcher) connection() cell {
	switch {
	case w.lost != nil:
		left := max(w.lost.until.Sub(w.now).Round(time.Second), 0)
		return cell{text: fmt.Sprintf("◌ reconnecting in %v", left), style: warn}
	case w.state != "live":
		return cell{text: "◌ " + w.state, style: warn}
	case !w.gap.IsZero():
		text := "● live, after a gap at " + w.printer.zone(w.gap).Format(time.TimeOnly)
		if w.loading {
			text += ": loading the list"
		}
		return cell{text: text, style: warn}
	case w.loading:
		return cell{text: "● live, loading the list", style: good}
	}
	return cell{text: "● live", style: good}
}
