package use

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

const (
	framesPerSecond = 10
	batchEvery      = time.Second / framesPerSecond
	maxBatch        = 2000 // messages; then the stream waits
	maxPriced       = 100  // assets of one subscription to prices
	repricePause    = 2 * time.Second
)

func watchCommand(dataDir func() (string, error)) *cobra.Command {
	from := remote.Flags{DataDir: dataDir}
	var filters streamFilters
	var utc bool
	c := &cobra.Command{
		Use: "watch", Short: "Watch open and just closed signals on the whole screen", Args: cobra.NoArgs,
		Long: "Watch the open signals of a running service, and those that have just closed, on the whole screen. Each has\n" +
			"a ruler in R, the distance from entry to stop: red from the stop to the entry, green to the target, a dot\n" +
			"at the price now and a diamond where it closed. Chance is the confidence, and needs what it must be to pay\n" +
			"the costs. Flags select signals by their values at creation, as in tail; the filter typed after / selects\n" +
			"among these. It needs a terminal: for a file, a pipe or a screen reader use agentsignal tail.\n\n" +
			remote.KeySources,
		Example: "  agentsignal watch\n  agentsignal watch --assets BTC,ETH --min-confidence 0.4",
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, isFile := cmd.InOrStdin().(*os.File)
			out, isOut := cmd.OutOrStdout().(*os.File)
			if !isFile || !isOut || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) ||
				os.Getenv("TERM") == "dumb" {
				return errors.New("watch needs a terminal: use agentsignal tail")
			}
			service, err := from.Client(cmd)
			if err != nil {
				return err
			}
			return watch(cmd.Context(), service, filters.given(cmd.Flags()),
				&printer{form: formText, utc: utc, colours: isTerminal(out)}, in, out)
		},
	}
	filters.add(c.Flags())
	c.Flags().BoolVar(&utc, "utc", false, "show times in UTC, and not in the zone of this machine")
	from.Add(c, "")
	return c
}

// watch shows the signals of a service until the reader leaves or ctx ends.
func watch(ctx context.Context, service *client.Client, filters client.Filters, p *printer, in, out *os.File) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal is closed; other commands reload at it
	defer stop()
	streams, cancel := context.WithCancel(ctx)
	names := make(chan []string, 1)
	w := newWatcher(questions{
		list:   func(generation int) tea.Cmd { return listCommand(streams, service, filters, generation) },
		signal: func(id string) tea.Cmd { return signalCommandOf(streams, service, id) },
		prices: func(list []string) {
			select { // only the newest list counts
			case <-names:
			default:
			}
			names <- list
		},
	}, p, filters, service.Address.Host, time.Now())
	program := watchProgram(ctx, w, in, out)
	events := make(chan any)
	var running sync.WaitGroup
	running.Go(func() { deliver(streams, events, program.Send) })
	running.Go(func() {
		if err := followSignals(streams, service, filters, events); streams.Err() == nil {
			program.Send(ended{err})
		}
	})
	running.Go(func() { followPrices(streams, service, names, events) })
	_, err := program.Run()
	cancel()
	running.Wait()
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	return remote.Explain(w.failure)
}

// watchProgram draws w on out, at most framesPerSecond times a second, and takes keys from in.
func watchProgram(ctx context.Context, w tea.Model, in io.Reader, out io.Writer) *tea.Program {
	return tea.NewProgram(w, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithFPS(framesPerSecond),
		tea.WithoutSignalHandler())
}

// deliver passes events on in batches, at most one each batchEvery, until ctx ends.
func deliver(ctx context.Context, events <-chan any, send func(tea.Msg)) {
	var batch arrived
	var due <-chan time.Time
	var last time.Time
	for {
		more := events
		if len(batch) == maxBatch {
			more = nil
		}
		select {
		case <-ctx.Done():
			return
		case e := <-more:
			if batch = append(batch, e); due == nil {
				due = time.After(batchEvery - time.Since(last))
			}
		case <-due:
			send(batch)
			batch, due, last = nil, nil, time.Now()
		}
	}
}

// pass sends an event unless ctx ends before.
func pass(ctx context.Context, events chan<- any, e any) error {
	select {
	case events <- e:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// followSignals sends the messages about signals until ctx ends or the service ends it.
func followSignals(ctx context.Context, service *client.Client, filters client.Filters, events chan<- any) error {
	s := &client.Stream{Client: service, Channels: []string{"signal.new", "signal.updated", "signal.closed"}, Filters: filters,
		Interrupted: func(err error, pause time.Duration) {
			_ = pass(ctx, events, &interrupted{err, time.Now().Add(pause)})
		}}
	return s.Follow(ctx, func(m *client.Message) error { return pass(ctx, events, m) })
}

// followPrices sends the prices of the assets that were named last, until ctx ends. A subscription cannot be
// changed: one that has all of them goes on.
func followPrices(ctx context.Context, service *client.Client, names <-chan []string, events chan<- any) {
	var current []string
	stop := func() {}
	for {
		select {
		case <-ctx.Done():
			stop()
			return
		case list := <-names:
			missing := slices.ContainsFunc(list, func(name string) bool { return !slices.Contains(current, name) })
			if !missing {
				continue
			}
			stop()
			current = list
			own, cancel := context.WithCancel(ctx)
			over := make(chan struct{})
			stop = func() { cancel(); <-over }
			go func() {
				defer close(over)
				s := &client.Stream{Client: service, Channels: []string{"market.price"}, Filters: client.Filters{Assets: list}}
				err := s.Follow(own, func(m *client.Message) error {
					if m.Price == nil {
						return nil
					}
					return pass(own, events, m)
				})
				if own.Err() == nil {
					_ = pass(own, events, pricesFailed{err})
				}
			}()
			select { // new assets come one by one
			case <-ctx.Done():
			case <-time.After(repricePause):
			}
		}
	}
}

// listCommand asks for the open signals and the newest closed ones.
func listCommand(ctx context.Context, service *client.Client, f client.Filters, generation int) tea.Cmd {
	return func() tea.Msg {
		l := listed{generation: generation}
		q := client.SignalQuery{Asset: only(f.Assets), Agent: only(f.Agents), Strategy: only(f.Strategies),
			Direction: only(f.Directions)}
		for status, limit := range map[string]int{"open": maxWatchedOpen, "closed": maxWatchedClosed} {
			q.Status = status
			list, err := client.Collect(service.Signals(ctx, q, limit))
			l.signals, l.err = append(l.signals, list...), cmp.Or(l.err, err)
		}
		return l
	}
}

// signalCommandOf asks for a signal and its history.
func signalCommandOf(ctx context.Context, service *client.Client, id string) tea.Cmd {
	return func() tea.Msg {
		s, err := service.Signal(ctx, id)
		if err != nil {
			return shown{id: id, err: err}
		}
		h, err := service.History(ctx, id)
		return shown{id, s, h, err}
	}
}
