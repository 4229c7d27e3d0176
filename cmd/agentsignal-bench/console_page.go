package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/css"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

const (
	pageWidth  = 1280
	pageHeight = 900
	walkHeight = 6000 // while all rows are read: fewer steps, with more rows each
	traceEnd   = time.Minute
)

//go:embed console.js
var consoleScript string

// errNoBrowser is returned where no Chromium is installed.
var errNoBrowser = errors.New("this benchmark needs chromium: install the package chromium")

// consolePage is the console in a browser.
type consolePage struct {
	ctx context.Context // of chromedp, which keeps the browser in it
	end func()

	mu     sync.Mutex // guards events, of the trace that is being collected
	events []json.RawMessage
	traced chan struct{}
}

// openConsole opens the console of a service in a new browser, whose files are in dir, and
// signs in with the first account of the rig.
func openConsole(ctx context.Context, browser string, s *server, dir string) (*consolePage, error) {
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(browser),
		chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true))
	ctx, endBrowser := chromedp.NewExecAllocator(ctx, options...)
	ctx, endPage := chromedp.NewContext(ctx)
	p := &consolePage{ctx: ctx, end: func() { endPage(); endBrowser() }, traced: make(chan struct{}, 1)}
	err := chromedp.Do(ctx, chromedp.EmulateViewport(pageWidth, pageHeight),
		chromedp.Navigate("http://"+s.addr+"/dashboard/"))
	if err == nil {
		err = p.quiet()
	}
	if err == nil {
		err = chromedp.Listen(ctx, p.listen)
	}
	if err == nil {
		_, err = evaluate[any](p, consoleScript)
	}
	if err == nil {
		_, err = evaluate[any](p, fmt.Sprintf("signIn(%q, %q)", accountEmail(0), accountPassword))
	}
	if err != nil {
		p.end()
		return nil, fmt.Errorf("open the console: %w", err)
	}
	return p, nil
}

// quiet turns off what chromedp lets a page report: each report is work of its main thread,
// one for every message of the stream and every row that changes.
func (p *consolePage) quiet() error {
	for _, command := range []cdp.Command[cdp.Empty, cdp.Empty]{network.Disable, css.Disable, dom.Disable, log.Disable} {
		if _, err := chromedp.Call(p.ctx, command, cdp.Empty{}); err != nil {
			return fmt.Errorf("%s: %w", command.Method, err)
		}
	}
	return nil
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](p *consolePage, expression string) (T, error) {
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise, chromedp.EvalAsValue))
	if err != nil {
		err = fmt.Errorf("%.40s: %w", expression, err)
	}
	return v, err
}

// heap returns the bytes that the page's scripts hold after a garbage collection.
func (p *consolePage) heap() (float64, error) {
	if _, err := chromedp.Call(p.ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		return 0, fmt.Errorf("collect garbage: %w", err)
	}
	usage, err := chromedp.Call(p.ctx, runtime.GetHeapUsage, cdp.Empty{})
	return usage.UsedSize, err
}

// walk returns all rows of the list, in their order.
func (p *consolePage) walk() ([]consoleRow, error) {
	resize := func(height int64) error { return chromedp.Do(p.ctx, chromedp.EmulateViewport(pageWidth, height)) }
	if err := resize(walkHeight); err != nil {
		return nil, err
	}
	rows, err := evaluate[[]consoleRow](p, "walk()")
	return rows, errors.Join(err, resize(pageHeight))
}

func (p *consolePage) listen(event any) {
	switch e := event.(type) {
	case *tracing.EventDataCollected:
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, text := range e.Value {
			p.events = append(p.events, json.RawMessage(slices.Clone(text)))
		}
	case *tracing.EventTracingComplete:
		p.traced <- struct{}{}
	}
}

// trace returns the tasks of the page's main thread while f runs.
func (p *consolePage) trace(f func() error) (threadTasks, error) {
	_, err := chromedp.Call(p.ctx, tracing.Start, tracing.StartParams{TraceConfig: &tracing.TraceConfig{
		IncludedCategories: []string{"disabled-by-default-devtools.timeline", "blink.user_timing"}}})
	if err != nil {
		return threadTasks{}, fmt.Errorf("start trace: %w", err)
	}
	// The trace has the threads of all pages: the mark is in the one that is asked for.
	_, err = evaluate[any](p, fmt.Sprintf("performance.mark(%q) && null", pageMark))
	start := time.Now()
	if err == nil {
		err = f()
	}
	took := time.Since(start)
	if _, e := chromedp.Call(p.ctx, tracing.End, cdp.Empty{}); e != nil {
		return threadTasks{}, errors.Join(err, fmt.Errorf("end trace: %w", e))
	}
	select {
	case <-p.traced:
	case <-p.ctx.Done():
		return threadTasks{}, p.ctx.Err()
	case <-time.After(traceEnd):
		return threadTasks{}, errors.New("the trace did not end")
	}
	p.mu.Lock()
	events := p.events
	p.events = nil
	p.mu.Unlock()
	if err != nil {
		return threadTasks{}, err
	}
	tasks, err := mainThread(events)
	tasks.window = took
	return tasks, err
}

// pageMark is the name of the mark that a page sets at the start of a trace.
const pageMark = "agentsignal.bench"

// threadTasks sums up the tasks of a thread.
type threadTasks struct {
	longest    time.Duration // wall time of the longest task
	longestCPU time.Duration // processor time of that task; for the rest of it another process had the processor
	mostCPU    time.Duration // of any task
	taken      []time.Duration
	window     time.Duration // in which they ran
}

// add adds the tasks of another trace.
func (t *threadTasks) add(o threadTasks) {
	if o.longest > t.longest {
		t.longest, t.longestCPU = o.longest, o.longestCPU
	}
	t.mostCPU = max(t.mostCPU, o.mostCPU)
	t.taken = append(t.taken, o.taken...)
	t.window += o.window
}

// busy returns the share of the time in which a task was running.
func (t *threadTasks) busy() float64 {
	var sum time.Duration
	for _, d := range t.taken {
		sum += d
	}
	return sum.Seconds() / t.window.Seconds()
}

// mainThread returns the tasks of the thread that set the mark.
func mainThread(events []json.RawMessage) (threadTasks, error) {
	type thread struct{ process, thread int64 }
	tasks := map[thread]*threadTasks{}
	var marked thread
	for _, text := range events {
		var e struct {
			Name    string  `json:"name"`
			Phase   string  `json:"ph"`
			Process int64   `json:"pid"`
			Thread  int64   `json:"tid"`
			Micros  float64 `json:"dur"`
			CPU     float64 `json:"tdur"`
		}
		if err := json.Unmarshal(text, &e); err != nil {
			return threadTasks{}, fmt.Errorf("read trace: %w", err)
		}
		at := thread{e.Process, e.Thread}
		switch {
		case e.Name == pageMark:
			marked = at
		case e.Name == "RunTask" && e.Phase == "X":
			if tasks[at] == nil {
				tasks[at] = &threadTasks{}
			}
			taken, cpu := micros(e.Micros), micros(e.CPU)
			tasks[at].add(threadTasks{longest: taken, longestCPU: cpu, mostCPU: cpu,
				taken: []time.Duration{taken}})
		}
	}
	found := tasks[marked]
	if found == nil {
		return threadTasks{}, fmt.Errorf("the trace of %d events has no tasks of the page", len(events))
	}
	return *found, nil
}

func micros(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }
