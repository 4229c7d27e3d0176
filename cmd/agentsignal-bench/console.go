package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	consoleWindow   = 30 * time.Second
	consoleRows     = 10_000 // which the page keeps: capacity in http/console/src/live/store.ts
	consoleRate     = 500    // signals per second
	consoleFillRate = 700    // signals per second while nothing is measured
	consoleFill     = 12_000 // more than the page keeps
	consoleFills    = 4      // attempts to fill the page
	consoleTask     = 50 * time.Millisecond
	consoleGrowth   = 1.05 // heap at the end to that in the middle: by then the buffers of fixed length are full
	consoleSlice    = 10 * time.Second
	consoleLook     = time.Second
	consoleMixed    = 10 * time.Second
	consoleOpen     = 200 // signals open above a full list of closed ones
	consoleSpare    = 20  // rows in the document beyond those that fit into the window
)

// consoleRow is a row of the page.
type consoleRow struct {
	ID     string
	Index  int
	Closed bool
}

// consoleView is what a reader sees.
type consoleView struct {
	Rows         int
	Drawn, Nodes int // rows and elements in the document
	Fit          int // rows in a window without a head
	Shown        []struct {
		ID         string
		Index, Top int
	}
	Pill        string
	Behind      float64 // milliseconds
	Interrupted string
}

// consoleRun is a run of the benchmark.
type consoleRun struct {
	*consoleBenchmark
	load *consoleLoad
	page *consolePage

	behind float64 // milliseconds that an event was late at most
	faults []string
}

// consoleBenchmark is the benchmark console.
type consoleBenchmark struct {
	*report
	window   time.Duration // how long signals arrive, in all cases together
	mixedFor time.Duration // how long 200 signals are open above a full list of closed ones
}

// define implements adjustable.
func (b *consoleBenchmark) define(c *cobra.Command) {
	c.Flags().DurationVar(&b.window, "window", consoleWindow, "how long signals arrive, in all cases together")
	c.Flags().DurationVar(&b.mixedFor, "mixed", consoleMixed, "how long 200 signals are open above a full list of closed ones")
}

// measure measures the page of live signals in a browser: 10,000 rows while 500 signals
// arrive each second. It has no reference: its targets are those of a page that answers at
// once (no task of its main thread takes 50 ms), keeps its memory and drops nothing.
func (b *consoleBenchmark) measure(ctx context.Context) (err error) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		return errNoBrowser
	}
	r, s, err := newService(ctx, 1, withTicks)
	if err != nil {
		return err
	}
	defer r.end(ctx, &err)
	load, err := newConsoleLoad(ctx, r, s)
	if err != nil {
		return err
	}
	defer load.stream.Close()
	page, err := openConsole(ctx, browser, s, filepath.Join(r.dir, "browser"))
	if err != nil {
		return err
	}
	defer page.end()
	c := &consoleRun{consoleBenchmark: b, load: load, page: page}
	if err := c.cases(ctx); err != nil {
		return err
	}
	b.row("an event was late by at most", "%.0f ms", c.behind)
	if len(c.faults) > 0 {
		return errors.New(strings.Join(c.faults, "; "))
	}
	return nil
}

// fault records what does not hold. The other figures are still printed.
func (c *consoleRun) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.faults = append(c.faults, text)
	c.row("  NOT MET", "%s", text)
}

// cases measures the cases one after the other, each for an equal part of the window.
func (c *consoleRun) cases(ctx context.Context) error {
	c.load.closes = true
	if err := c.fill(ctx); err != nil {
		return err
	}
	if _, err := c.heap("start"); err != nil {
		return err
	}
	if err := c.mixed(ctx); err != nil {
		return err
	}
	if err := c.atTop(ctx, "at the top, as many signals close"); err != nil {
		return err
	}
	c.load.closes = false
	if err := c.fill(ctx); err != nil {
		return err
	}
	if err := c.atTop(ctx, "at the top"); err != nil {
		return err
	}
	middle, err := c.heap("middle")
	if err != nil {
		return err
	}
	if err := c.standing(ctx, "in the middle of the list", "toMiddle()", "null"); err != nil {
		return err
	}
	if err := c.standing(ctx, "held", "hold()", "hold()"); err != nil {
		return err
	}
	end, err := c.heap("end")
	if err == nil && end > middle*consoleGrowth {
		c.fault("the heap grew from %.1f to %.1f MB in the second half", middle/1e6, end/1e6)
	}
	return err
}

// fill makes signals until the page has as many as it keeps. On a busy machine the page may
// fall so far behind that the service closes its stream, and it loads a part of the list:
// then more are made, since nothing is measured yet.
func (c *consoleRun) fill(ctx context.Context) error {
	var v consoleView
	for range consoleFills {
		if _, err := c.load.run(ctx, consoleFill, consoleFillRate); err != nil {
			return err
		}
		if err := c.settle(ctx); err != nil {
			return err
		}
		var err error
		if v, err = evaluate[consoleView](c.page, "look()"); err != nil {
			return err
		}
		if v.Rows == consoleRows && v.Interrupted == "" {
			return nil
		}
		if _, err := evaluate[any](c.page, "understood()"); err != nil {
			return err
		}
	}
	return fmt.Errorf("the page does not keep up while it is filled: it has %d rows, %q", v.Rows, v.Interrupted)
}

// settle waits until the page has got what was made and is still.
func (c *consoleRun) settle(ctx context.Context) error {
	if err := c.load.settle(ctx); err != nil {
		return err
	}
	var before string
	return until(ctx, consoleQuiet, time.Second, func() (bool, error) {
		v, err := evaluate[consoleView](c.page, "look()")
		now := fmt.Sprint(v.Rows, v.Shown, v.Pill)
		same := now == before
		before = now
		return same, err
	})
}

func (c *consoleRun) heap(when string) (float64, error) {
	bytes, err := c.page.heap()
	if err == nil {
		c.row("heap after a collection, "+when, "%.1f MB", bytes/1e6)
	}
	return bytes, err
}

// mixed has signals arrive and close at a rate at which 200 are open, above a full list of
// closed ones: what is in the document must grow with neither list. It prints what is there
// after 1, 5 and 20 minutes, if it lasts so long, and at the end.
func (c *consoleRun) mixed(ctx context.Context) error {
	rate := consoleOpen / consoleLife.Seconds()
	run := func(d time.Duration, look func(consoleView)) error {
		made := make(chan error, 1)
		go func() {
			_, err := c.load.run(ctx, int(d.Seconds()*rate), rate)
			made <- err
		}()
		return c.watch(made, look)
	}
	// What the fill left open closes first.
	if err := run(2*consoleLife, func(consoleView) {}); err != nil {
		return err
	}
	start := time.Now()
	marks := []time.Duration{time.Minute, 5 * time.Minute, 20 * time.Minute}
	var most, last consoleView
	err := run(c.mixedFor, func(v consoleView) {
		last = v
		most.Drawn, most.Nodes = max(most.Drawn, v.Drawn), max(most.Nodes, v.Nodes)
		if after := time.Since(start); len(marks) > 0 && after >= marks[0] {
			c.row(fmt.Sprintf("rows, nodes in the document after %s", marks[0]), "%d, %d", v.Drawn, v.Nodes)
			marks = marks[1:]
		}
	})
	if err != nil {
		return err
	}
	open, err := c.load.list(ctx, "open", 1, 0)
	c.row("open, closed on the page", "%d, %d", open.Total, last.Rows-open.Total)
	c.row("  rows, nodes in the document at most", "%d, %d, where %d rows fit", most.Drawn, most.Nodes, last.Fit)
	return err
}

// atTop measures the page while its reader is at the top of the list, which moves.
func (c *consoleRun) atTop(ctx context.Context, what string) error {
	moved, last := 0, ""
	looks := 0
	tasks, err := c.arrivals(ctx, what, func(v consoleView) {
		looks++
		if len(v.Shown) > 0 && v.Shown[0].ID != last {
			moved++
			last = v.Shown[0].ID
		}
		if v.Pill != "" {
			c.fault("the pill is there though the list moves: %s", v.Pill)
		}
	}, nil)
	if err != nil {
		return err
	}
	c.tasks(what, tasks)
	if moved < looks {
		c.fault("the list moved at %d of %d looks", moved, looks)
	}
	return c.compare(ctx)
}

// standing measures the page while its list must stand still: go there, and leave by
// the pill and a last step.
func (c *consoleRun) standing(ctx context.Context, what, enter, leave string) error {
	if _, err := evaluate[any](c.page, enter); err != nil {
		return err
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	before, err := evaluate[consoleView](c.page, "look()")
	if err != nil {
		return err
	}
	if len(before.Shown) == 0 {
		return errors.New("the page shows no rows")
	}
	made := c.load.made
	moved := 0
	check := func(v consoleView) {
		if !slices.Equal(v.Shown, before.Shown) {
			moved++
		}
	}
	tasks, err := c.arrivals(ctx, what, check, func() error {
		if err := c.settle(ctx); err != nil {
			return err
		}
		v, err := evaluate[consoleView](c.page, "look()")
		if err != nil {
			return err
		}
		check(v)
		if want := fmt.Sprintf("%d new", c.load.made-made); v.Pill != want {
			c.fault("the pill has %q, not %q", v.Pill, want)
		}
		for _, step := range []string{"pressPill()", leave} {
			if _, err := evaluate[any](c.page, step); err != nil {
				return err
			}
		}
		return c.settle(ctx)
	})
	if err != nil {
		return err
	}
	c.tasks(what+", then shown", tasks)
	if moved > 0 {
		c.fault("the rows in sight changed at %d looks", moved)
	}
	return c.compare(ctx)
}

// arrivals traces the page while signals arrive for a part of the window, in slices, since a
// trace is kept in memory until it ends. Each second look gets what the reader sees. last
// runs at the end of the last slice.
func (c *consoleRun) arrivals(
	ctx context.Context, what string, look func(consoleView), last func() error,
) (sum threadTasks, err error) {
	var rate float64
	slicesLeft := int(max(1, (c.part()+consoleSlice/2)/consoleSlice))
	n := int(c.part().Seconds() * consoleRate / float64(slicesLeft))
	for ; slicesLeft > 0; slicesLeft-- {
		tasks, err := c.page.trace(func() error {
			made := make(chan error, 1)
			go func() {
				var err error
				rate, err = c.load.run(ctx, n, consoleRate)
				made <- err
			}()
			if err := c.watch(made, look); err != nil || slicesLeft > 1 || last == nil {
				return err
			}
			return last()
		})
		if err != nil {
			return sum, fmt.Errorf("%s: %w", what, err)
		}
		if rate < consoleRate*.95 {
			c.fault("only %.0f signals/s were made", rate)
		}
		sum.add(tasks)
	}
	return sum, c.settle(ctx)
}

// watch looks at the page until the signals are made.
func (c *consoleRun) watch(made <-chan error, look func(consoleView)) error {
	every := time.NewTicker(consoleLook)
	defer every.Stop()
	interrupted := ""
	for {
		select {
		case err := <-made:
			return err
		case <-every.C:
		}
		v, err := evaluate[consoleView](c.page, "look()")
		if err != nil {
			return errors.Join(err, <-made)
		}
		c.behind = max(c.behind, v.Behind)
		if v.Interrupted != "" && v.Interrupted != interrupted {
			c.fault("the page was interrupted: %s", v.Interrupted)
		}
		interrupted = v.Interrupted
		if v.Drawn > v.Fit+consoleSpare {
			c.fault("%d rows are in the document, where %d fit", v.Drawn, v.Fit)
		}
		look(v)
	}
}

// part is the window of each of the four cases.
func (c *consoleRun) part() time.Duration { return c.window / 4 }

// tasks prints the figures of a case.
func (c *consoleRun) tasks(what string, t threadTasks) {
	slices.Sort(t.taken)
	c.row(what, "%d tasks, busy %.0f %%", len(t.taken), t.busy()*100)
	c.row("  longest task (target below 50 ms)", "%s, of which %s CPU", short(t.longest), short(t.longestCPU))
	c.row("  most CPU of a task, p99.9 of all tasks", "%s, %s", short(t.mostCPU), short(percentile(t.taken, 99.9)))
	if t.longest >= consoleTask {
		c.fault("%s: a task took %s, of which %s CPU", what, short(t.longest), short(t.longestCPU))
	}
}

// compare compares all rows of the page with the list of the service: all open signals, the
// newest first, then the closed ones that ended last, 10,000 together.
func (c *consoleRun) compare(ctx context.Context) error {
	open, err := c.load.newest(ctx, "open", consoleRows, func(s listedSignal) string { return s.CreatedAt })
	if err != nil {
		return err
	}
	// The message of a closing has the time at which it was recorded, which the API lists as
	// that of the last change; closed_at is that of the price.
	closed, err := c.load.newest(ctx, "closed", consoleRows-len(open), func(s listedSignal) string { return s.UpdatedAt })
	if err != nil {
		return err
	}
	want := make([]consoleRow, 0, consoleRows)
	for _, id := range open {
		want = append(want, consoleRow{ID: id})
	}
	for _, id := range closed {
		want = append(want, consoleRow{ID: id, Closed: true})
	}
	v, err := evaluate[consoleView](c.page, "look()")
	if err != nil {
		return err
	}
	got, err := c.page.walk()
	if err != nil {
		return err
	}
	missing, extra, moved := rowsApart(got, want)
	c.row("  rows of the page, of the service's list", "%d, %d: %d missing, %d too many, %d out of order",
		v.Rows, len(want), missing, extra, moved)
	if missing+extra+moved > 0 || v.Rows != len(want) {
		c.fault("the page's rows are not those of the service")
	}
	return nil
}

// rowsApart returns how many rows are missing in got, how many it has too many, and how many
// of the others are not in the place that the rows before them leave for them.
func rowsApart(got, want []consoleRow) (missing, extra, moved int) {
	type row struct {
		id     string
		closed bool
	}
	places := make(map[row]int, len(got))
	for i, r := range got {
		places[row{r.ID, r.Closed}] = i
	}
	last := -1
	for _, r := range want {
		at, found := places[row{r.ID, r.Closed}]
		switch {
		case !found:
			missing++
		case at < last || got[at].Index != at+2: // the row of the head is the first one
			moved++
		default:
			last = at
		}
	}
	return missing, len(got) - (len(want) - missing), moved
}
