package use

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/http/client"
)

var watchedAt = time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)

// watchTest is a watcher without a terminal and without a service.
type watchTest struct {
	*watcher
	t      *testing.T
	lists  int      // times that the list was asked for
	asked  string   // the signal that was asked for last
	priced []string // assets whose prices were asked for last
}

func newWatchTest(t *testing.T) *watchTest {
	w := &watchTest{t: t}
	w.watcher = newWatcher(questions{
		list:   func(int) tea.Cmd { w.lists++; return nil },
		signal: func(id string) tea.Cmd { w.asked = id; return nil },
		prices: func(names []string) { w.priced = names },
	}, &printer{utc: true}, client.Filters{}, "localhost:8080", watchedAt)
	w.Update(tea.WindowSizeMsg{Width: 80, Height: 12})
	return w
}

// press presses keys.
func (w *watchTest) press(keys ...string) (last tea.Cmd) {
	special := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp,
		"backspace": tea.KeyBackspace, "end": tea.KeyEnd, "pgdown": tea.KeyPgDown}
	for _, k := range keys {
		press := tea.KeyPressMsg{Text: k, Code: []rune(k)[0]}
		if code, ok := special[k]; ok {
			press = tea.KeyPressMsg{Code: code}
		}
		_, last = w.Update(press)
	}
	return last
}

// screen returns the lines without spaces at their ends.
func (w *watchTest) screen() string {
	var b strings.Builder
	for _, line := range w.lines() {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

func (w *watchTest) shows(what string, want ...string) {
	w.t.Helper()
	for _, text := range want {
		if !strings.Contains(w.screen(), text) {
			w.t.Errorf("%s: %q is not in\n%s", what, text, w.screen())
		}
	}
}

func subscribedTo(gap bool) *client.Message {
	return &client.Message{Type: "subscribed", At: watchedAt, Subscribed: &client.Subscribed{Gap: gap}}
}

// created returns the message of a long signal with a stop at 90 and a target at 120.
func created(id, asset string, age time.Duration) *client.Message {
	s := &client.Signal{ID: id, Agent: "trading", Asset: asset, Strategy: "momentum", Direction: "long", Confidence: .42,
		Entry: of(100), Stop: of(90), Target: of(120), CreatedAt: watchedAt.Add(-age)}
	s.Metadata.BreakEvenNet, s.Metadata.ExpectedR, s.Metadata.ExpectedRNet = of(.45), of(.1), of(-.1)
	return &client.Message{Type: "signal.new", At: s.CreatedAt, Signal: s}
}

func moved(id string, confidence float64) *client.Message {
	return &client.Message{Type: "signal.updated", At: watchedAt, Signal: &client.Signal{ID: id, Confidence: confidence,
		UpdatedAt: watchedAt}}
}

func ending(id, why string, exit float64) *client.Message {
	return &client.Message{Type: "signal.closed", At: watchedAt, Signal: &client.Signal{ID: id, CloseReason: why, Exit: &exit,
		PnLPercent: of(exit - 100), PnLAbsolute: of(exit - 100)}}
}

func priceOf(asset string, x float64) *client.Message {
	return &client.Message{Type: "market.price", Price: &client.Price{Asset: asset, Price: x, At: watchedAt}}
}

func TestWatchShowsSignalsWithTheirRulers(t *testing.T) {
	t.Parallel()
	w := newWatchTest(t)
	w.shows("at the start", "◌ connecting", " loading")
	w.Update(arrived{subscribedTo(false), created("sig_b", "BTC", time.Minute), ending("sig_unknown", "expired", 95)})
	listedBTC := *created("sig_b", "BTC", time.Minute).Signal
	listedBTC.Status, listedBTC.Confidence = "open", .99 // older than what follows
	old := created("sig_old", "XAUUSD", 3*time.Hour).Signal
	old.Status, old.ClosedAt, old.R, old.Exit, old.CloseReason = "closed", &old.CreatedAt, of(-1.0), of(90), "stop_loss"
	w.Update(arrived{moved("sig_b", .617), created("sig_e", "ETH", 2*time.Second)})
	w.Update(listed{generation: 1, signals: []*client.Signal{&listedBTC, old}})
	w.Update(arrived{created("sig_sol", "SOL", 2*time.Hour), ending("sig_sol", "expired", 95), priceOf("BTCUSD", 110),
		priceOf("ETH", 250)})
	text := created("sig_text", "standing desk", time.Second)
	text.Signal.Entry = nil
	w.Update(arrived{text})
	want := `
● live  3 open, 2 closed  localhost:8080
 asset       side     -1R   entry  +1R    +2R    result  chance      price  age
 Open 3
 standing d… text                                     -  42.0 %          -   1s
 ETH         ▲ long    ▐░░░░░░│▒▒▒▒▒▒▒▒▒▒▒▒▌ ▶ +15.00 R  42.0 %     250.00   2s
 BTC         ▲ long    ▐░░░░░░│▒▒▒▒▒●▒▒▒▒▒▒▌    +1.00 R  61.7 %     110.00   1m
 Closed 2
 SOL         ▲ long    ▐░░◆░░░│▒▒▒▒▒▒▒▒▒▒▒▒▌    -0.50 R  42.0 %      95.00   0s
 XAUUSD      ▲ long    ◆░░░░░░│▒▒▒▒▒▒▒▒▒▒▒▒▌    -1.00 R  42.0 %      90.00   3h

 sorted by newest
 q quit  ↑↓ select  enter detail  / filter  s sort  r reverse  space hold
`
	if diff := cmp.Diff(want, "\n"+w.screen()); diff != "" || w.lists != 1 || !slices.Equal(w.priced, []string{"ETH", "BTC"}) {
		t.Errorf("the list was asked for %d times, the prices of %q\n%s", w.lists, w.priced, diff)
	}
	// The stretches are red and green, the mark has the colour of the result.
	p := printer{colours: true}
	s := w.board.signals["sig_b"]
	want = "\x1b[31m▐░\x1b[0m│\x1b[32m▒\x1b[0m\x1b[1;32m●\x1b[0m\x1b[32m▒▌\x1b[0m"
	if got := p.ruler(s, of(1), rulerScale{-1, 2}, 7); got != want {
		t.Errorf("the ruler is %q, want %q", got, want)
	}
	if _, net := w.board.result(s); net == nil || fmt.Sprintf("%.3f", *net) != "0.790" { // 1 - 0.2 (100 + 110) / 200
		t.Errorf("after costs it is %v", net)
	}
}

func TestWatchSortsFiltersAndHolds(t *testing.T) {
	t.Parallel()
	w := newWatchTest(t)
	w.Update(arrived{subscribedTo(false)})
	w.Update(listed{generation: 1})
	w.shows("an empty list", "no signals yet")
	w.Update(arrived{created("sig_1", "BTC", 3*time.Second), created("sig_2", "ETH", 2*time.Second),
		created("sig_3", "SOL", time.Second), moved("sig_2", .9)})
	list := func(what, want string) {
		t.Helper()
		if got := strings.Join(w.list.ids, " "); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	list("newest", "sig_3 sig_2 sig_1")
	w.press("s")
	w.Update(arrived{priceOf("BTC", 110), priceOf("SOL", 90)})
	list("result", "sig_1 sig_2 sig_3")
	w.press("s", "r")
	list("chance, reversed", "sig_3 sig_1 sig_2")
	w.shows("an order", "sorted by chance, reversed")
	w.press("r", "s", "s")
	list("asset", "sig_1 sig_2 sig_3")

	w.press("down", "down", " ") // held
	w.Update(arrived{created("sig_4", "AAPL", 0), created("sig_5", "AAPL", 0), ending("sig_5", "expired", 100),
		ending("sig_1", "take_profit", 120)})
	list("held", "sig_1 sig_2 sig_3")
	w.shows("held", "held: 2 new, 1 closed", "›ETH", "◆") // a row changes in its place
	w.press("u")
	list("shown", "sig_4 sig_2 sig_3 sig_5 sig_1")
	w.shows("still held", "held: 0 new, 0 closed")
	w.Update(arrived{created("sig_6", "BTC", 0)})
	w.press(" ")
	list("released", "sig_4 sig_6 sig_2 sig_3 sig_5 sig_1")
	w.shows("the selection follows its signal", "›ETH")

	w.press(strings.Split("/btc", "")...)
	list("typed", "sig_6 sig_1")
	w.press(strings.Split(" --min-confidence", "")...)
	w.shows("half a flag", "filter: btc --min-confidence", "flag needs an argument")
	list("half a flag keeps what was right", "sig_6 sig_1")
	w.press("esc")
	if w.filter.text != "" || len(w.list.ids) != 6 {
		t.Errorf("after esc the filter is %q and the list %q", w.filter.text, w.list.ids)
	}
	w.press(strings.Split("/open long momentumx", "")...)
	w.press("backspace", "enter")
	list("words", "sig_4 sig_6 sig_2 sig_3")
	w.press(strings.Split("/q", "")...) // no longer a key
	w.shows("nothing", "no signal passes the filter")
	w.press("esc")
	w.Update(arrived{created("sig_7", "DOGE", 0), ending("sig_4", "expired", 100)})
	list("the filter applies to what comes", "sig_6 sig_7 sig_2 sig_3")
	if w.press("q") == nil {
		t.Error("q does not quit")
	}
}

func TestWatchShowsTheStateOfTheConnection(t *testing.T) {
	t.Parallel()
	w := newWatchTest(t)
	w.Update(arrived{subscribedTo(false)})
	w.Update(listed{generation: 1, err: &client.Problem{Status: 503, Code: "unavailable", Detail: "no\x1b[2J"}})
	w.shows("no list", "the list cannot be loaded: ", "no�[2J")
	w.Update(relist{1})
	w.Update(listed{generation: 2})
	w.Update(arrived{created("sig_1", "BTC", time.Minute), created("sig_2", "ETH", time.Second)})
	w.Update(arrived{&interrupted{errors.New("read: reset"), watchedAt.Add(4 * time.Second)}})
	w.Update(ticked(watchedAt.Add(time.Second)))
	w.shows("a lost connection", "◌ reconnecting in 3s  2 open", "read: reset")
	w.Update(arrived{subscribedTo(false)})
	w.shows("a resume without a gap", "● live  2 open")
	if w.lists != 2 {
		t.Errorf("after it the list was asked for: %d", w.lists)
	}

	// After a gap the list decides, but not over what the stream has brought since.
	w.press(" ")
	w.Update(arrived{subscribedTo(true), created("sig_3", "SOL", 0), moved("sig_2", .5)})
	w.shows("a gap", "● live, after a gap at 09:30:00: loading the list")
	w.Update(listed{generation: 2}) // an answer to an earlier question
	w.Update(listed{generation: 3})
	w.shows("the list is held", " BTC ")
	w.press(" ")
	if got := strings.Join(w.list.ids, " "); got != "sig_3 sig_2" || w.lists != 3 {
		t.Errorf("after %d lists there are %s", w.lists, got)
	}
	w.shows("a gap", "● live, after a gap at 09:30:00  2 open")
	w.Update(arrived{&client.Message{Type: "subscribed", Subscribed: &client.Subscribed{Denied: []string{"signal.new"}}},
		pricesFailed{errors.New("nope")}})
	w.shows("what the key may not see", "no scope for signal.new", "no prices: nope")
	if _, do := w.Update(ended{errors.New("over")}); do == nil || w.failure == nil {
		t.Error("the end of the stream does not end it")
	}
}

func TestWatchShowsOneSignal(t *testing.T) {
	t.Parallel()
	w := newWatchTest(t)
	w.Update(tea.WindowSizeMsg{Width: 60, Height: 40})
	w.Update(arrived{subscribedTo(false), created("sig_1", "BTC", time.Minute), created("sig_2", "ETH", time.Hour)})
	w.Update(listed{generation: 1})
	w.press("enter")
	if w.asked != "sig_1" {
		t.Errorf("before any is selected, enter asks for %q and not for the first", w.asked)
	}
	w.press("esc")
	w.press(strings.Split("/eth", "")...)
	w.press("enter", "enter")
	if w.asked != "sig_2" {
		t.Errorf("when the selected one is not listed, enter asks for %q", w.asked)
	}
	w.press("esc")
	w.press(strings.Split("/x", "")...) // "ethx"
	w.press("enter", "enter")
	w.shows("nothing to open", "no signal passes the filter")
	w.press("/", "backspace", "backspace", "backspace", "backspace", "enter", "end", "enter")
	w.Update(arrived{moved("sig_2", .7)})
	w.shows("before the answer", "loading the history", "sig_2", "confidence   42.0 %", "chance now   70.0 %",
		"▐░", "now          100.00  0.00 R, -0.20 R net")
	full := *created("sig_2", "ETH", time.Hour).Signal
	full.Status, full.UpdatedAt, full.ExpiresAt = "open", full.CreatedAt, watchedAt.Add(time.Hour)
	full.Metadata.Reasoning = strings.Repeat("the reason of it ", 10)
	at := func(d time.Duration) time.Time { return watchedAt.Add(d) }
	w.Update(shown{id: "sig_1", err: errors.New("of another page")})
	w.Update(shown{"sig_2", &full, &client.History{Changes: []client.Change{
		{Type: "created", At: at(-time.Hour), Confidence: of(.42)},
		{Type: "updated", At: at(-time.Second), Confidence: of(.55)}}}, nil})
	w.Update(arrived{ending("sig_2", "take_profit", 120), ending("sig_1", "expired", 100)})
	if strings.Contains(w.screen(), "chance now") {
		t.Errorf("a closed signal has a chance:\n%s", w.screen())
	}
	w.shows("after it", "09:29:59  updated      55.0 %", "09:30:00  updated      70.0 %", "09:30:00  closed            -  120.00",
		"take_profit  at 120.00", "+2.00 R", "the reason of it the reason")
	if strings.Contains(w.screen(), "another page") {
		t.Errorf("an answer to another question is shown:\n%s", w.screen())
	}
	w.Update(tea.WindowSizeMsg{Width: 60, Height: 8})
	w.press("pgdown", "pgdown", "pgdown", "pgdown", "pgdown", "pgdown", "pgdown", "pgdown", "down")
	w.shows("its end", "09:30:00  closed")
	w.Update(shown{id: "sig_2", err: errors.New("gone\x1b[2J")})
	w.press("down", "down")
	w.shows("a fault", "gone�[2J")
	w.press("esc")
	w.shows("back", "Closed 2")
}

// No line is wider than the terminal, and no text of a service controls it.
func TestWatchFitsTheTerminal(t *testing.T) {
	t.Parallel()
	w := newWatchTest(t)
	w.Update(arrived{subscribedTo(true)})
	for i, asset := range []string{"BTC", strings.Repeat("長い名前", 20), "👩‍👩‍👧‍👦 family", "a\x1b[2Jb\nc", "", "é́́", "مرحبا"} {
		m := created(fmt.Sprint("sig_", i), asset, time.Minute)
		m.Signal.Strategy, m.Signal.Entry = asset, of(1e9)
		m.Signal.Metadata.Reasoning = strings.Repeat(asset, 30)
		w.Update(arrived{m})
	}
	w.Update(arrived{ending("sig_3", "x\x1b[2Jy", 1)})
	w.press("down")
	for _, keys := range []string{"", "/長い", "E \x1b", "P"} {
		switch keys {
		case "E \x1b":
			w.press("esc", "enter")
			w.Update(shown{id: w.selected, err: errors.New(strings.Repeat("長", 99))})
		case "P":
			w.press("esc")
			w.Update(arrived{&interrupted{errors.New(strings.Repeat("e", 200)), watchedAt}})
		default:
			w.press(strings.Split(keys, "")...)
		}
		for _, width := range []int{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 30, 39, 60, 79, 80, 81, 100, 150, 219} {
			for _, height := range []int{0, 1, 3, 5, 24} {
				w.Update(tea.WindowSizeMsg{Width: width, Height: height})
				lines := w.lines()
				if len(lines) > height {
					t.Fatalf("%d lines on %d", len(lines), height)
				}
				for _, line := range lines {
					if ansi.StringWidth(line) > width || strings.ContainsAny(line, "\x1b\n\t") {
						t.Fatalf("on %d x %d: %q", width, height, line)
					}
				}
			}
		}
	}
}

// What is kept is bounded, and what is shown stays.
func TestWatchForgets(t *testing.T) {
	t.Parallel()
	w := newWatchTest(t)
	w.Update(arrived{subscribedTo(false)})
	w.Update(listed{generation: 1})
	w.Update(arrived{created("sig_kept", "BTC", time.Hour), ending("sig_kept", "expired", 100)})
	w.press(" ")
	batch := arrived{}
	for i := range maxBoard + maxBoard/5 {
		batch = append(batch, created(fmt.Sprintf("sig_%05d", i), "ETH", 0))
	}
	w.Update(batch)
	if n := len(w.board.signals); n != maxBoard+1 {
		t.Errorf("%d signals are kept", n)
	}
	w.shows("the list is held", "BTC")
	w.shows("what came is counted", fmt.Sprintf("held: %d new", maxBoard))
}

// However many events come, there are at most ten batches a second, and none is lost.
func TestWatchTakesEventsInBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		events := make(chan any)
		batches, got := 0, 0
		over := make(chan struct{})
		go func() {
			defer close(over)
			deliver(ctx, events, func(m tea.Msg) {
				batches++
				for _, e := range m.(arrived) {
					if e != got {
						t.Errorf("%v comes after %d", e, got)
					}
					got++
				}
			})
		}()
		const n = 3000 // in three seconds
		for i := range n {
			if pass(ctx, events, i) != nil {
				t.Fatal("the context has not ended")
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(batchEvery)
		cancel()
		<-over
		if got != n || batches < 25 || batches > 31 {
			t.Errorf("%d events in %d batches", got, batches)
		}
		if pass(ctx, events, 0) == nil {
			t.Error("an event passes after the end")
		}
	})
}

// However fast the list changes and keys come, the screen is written ten times a second.
func TestWatchDrawsTenFramesASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWatchTest(t)
		w.Update(arrived{subscribedTo(false)})
		w.Update(listed{generation: 1})
		w.Update(arrived{created("sig_1", "BTC", time.Minute)})
		var out frames
		program := watchProgram(ctx, w.watcher, nil, &out)
		events := make(chan any)
		var running sync.WaitGroup
		running.Go(func() { deliver(ctx, events, program.Send) })
		running.Go(func() { _, _ = program.Run() }) // ends with ctx
		synctest.Wait()                             // it has noted that the output has no size
		program.Send(tea.WindowSizeMsg{Width: 80, Height: 12})
		time.Sleep(time.Second)
		before := out.n.Load()
		for i := range 600 { // in three seconds
			p := priceOf("BTC", 100+float64(i)/100)
			p.Price.At = watchedAt.Add(time.Duration(i) * time.Millisecond)
			if pass(ctx, events, p) != nil {
				t.Fatal("the context has not ended")
			}
			program.Send(tea.KeyPressMsg{Code: 'r', Text: "r"})
			time.Sleep(5 * time.Millisecond)
		}
		n := out.n.Load() - before
		cancel()
		running.Wait()
		time.Sleep(2 * time.Second) // a timer of the program
		if n < 10 || n > 31 {       // a frame like the last one is not written
			t.Errorf("600 prices and keys in 3 seconds are drawn in %d frames", n)
		}
	})
}

// frames counts what is written.
type frames struct{ n atomic.Int64 }

// Write implements io.Writer.
func (f *frames) Write(b []byte) (int, error) { f.n.Add(1); return len(b), nil }

func TestWatchNeedsATerminal(t *testing.T) {
	t.Parallel()
	run := commandtest.InProcess(func() *cobra.Command { return watchCommand(nil) })
	null, err := os.Open(os.DevNull)
	commandtest.Must(t, err)
	defer null.Close()
	if _, _, err := run(t.Context(), null, "--key", "k"); err == nil || !strings.Contains(err.Error(), "use agentsignal tail") {
		t.Errorf("without a terminal: %v", err)
	}
}
