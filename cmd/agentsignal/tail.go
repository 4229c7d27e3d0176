package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/service"
	"github.com/agentsignal/agentsignal/http/client"
)

// tailer follows the dashboard stream.
type tailer struct {
	service  *client.Client
	channels []string
	assets   []string
	raw      bool
	count    int // of messages, after which it ends; 0: never
	out, err io.Writer
}

// errShown ends a stream of which enough is shown.
var errShown = errors.New("enough is shown")

func tailCommand(s *service.Settings) *cobra.Command {
	t := &tailer{}
	from := remote.Flags{DataDir: s.Dir}
	c := &cobra.Command{
		Use: "tail", Short: "Show the stream of signals in the terminal", Args: cobra.NoArgs,
		Long: "Show the stream of a running service. It reconnects after a lost connection, and resumes where it\n" +
			"was.\n\n" + remote.KeySources,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := checkChannels(t.channels); err != nil {
				return err
			}
			if t.service, err = from.Client(cmd); err != nil {
				return err
			}
			t.out, t.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := t.checkAssets(cmd.Context()); err != nil {
				return err
			}
			return t.follow(cmd.Context())
		},
	}
	from.Add(c, "")
	c.Flags().StringSliceVar(&t.channels, "channels", shownChannels, "message types to show")
	c.Flags().StringSliceVar(&t.assets, "assets", nil, "show only these assets")
	c.Flags().BoolVar(&t.raw, "json", false, "print the messages as JSON, one per line")
	c.Flags().IntVarP(&t.count, "count", "n", 0, "end after so many events")
	return c
}

// shownChannels is the default of --channels.
var shownChannels = []string{"signal.new", "signal.updated", "signal.closed", "agent.status", "system.notification"}

// checkChannels refuses channels that the stream does not have.
func checkChannels(names []string) error {
	for _, name := range names {
		if !slices.Contains(client.Channels, name) {
			near := cmp.Or(command.OrNearest(name, client.Channels), ".")
			return fmt.Errorf("--channels: no channel %q%s There are %s", name, near,
				strings.Join(client.Channels, ", "))
		}
	}
	return nil
}

// checkAssets refuses an asset that looks like a misspelt asset with prices. It allows all
// other names: subjects of content, and assets whose prices others write to Redis, have any
// name.
func (t *tailer) checkAssets(ctx context.Context) error {
	if len(t.assets) == 0 {
		return nil
	}
	list, err := t.service.Assets(ctx)
	if p, ok := errors.AsType[*client.Problem](err); ok && (p.Temporary() || p.Status == 403 || p.Status == 404) {
		return nil // the key has no scope for the list, or the service has none
	}
	if err != nil {
		return remote.Explain(err)
	}
	var known []string
	for _, a := range list.Assets {
		known = append(known, a.Asset)
	}
	for _, name := range t.assets {
		if slices.ContainsFunc(known, func(k string) bool { return assets.Key(k) == assets.Key(name) }) {
			continue
		}
		if near := command.OrNearest(name, known); near != "" {
			return fmt.Errorf("--assets: the service has no asset %q%s", name, near)
		}
		fmt.Fprintf(t.err, "agentsignal: the service lists no prices of %q: it may have none, "+
			"unless this is another name of a listed asset\n", name)
	}
	return nil
}

// follow shows the stream until ctx ends. It reconnects after interruptions.
func (t *tailer) follow(ctx context.Context) error {
	s := &client.Stream{Client: t.service, Channels: t.channels, Filters: client.Filters{Assets: t.assets},
		Interrupted: func(err error, pause time.Duration) {
			fmt.Fprintf(t.err, "agentsignal: %v; trying again in %v\n", remote.Explain(err),
				pause.Round(time.Millisecond))
		}}
	err := s.Follow(ctx, t.show)
	if ctx.Err() != nil || errors.Is(err, errShown) {
		return nil
	}
	return remote.Explain(err)
}

// show prints one message.
func (t *tailer) show(m *client.Message) error {
	text := string(m.JSON)
	if !t.raw {
		line := describe(m)
		if line == "" {
			return nil
		}
		text = m.At.Local().Format("15:04:05.000") + "  " + command.Printable(line)
	}
	if _, err := fmt.Fprintln(t.out, text); err != nil {
		return err
	}
	if m.ID != "" && t.count > 0 {
		if t.count--; t.count == 0 {
			return errShown
		}
	}
	return nil
}

// describe returns the line for m, or "" if m is not shown.
func describe(m *client.Message) string {
	switch d := m.Signal; m.Type {
	case "signal.new":
		return fmt.Sprintf("%-10s %-11s %-5s %-14s confidence %.4f  entry %s  stop %s  target %s",
			"new", d.Asset, d.Direction, d.Strategy, d.Confidence, number(d.Entry), number(d.Stop), number(d.Target))
	case "signal.updated":
		return fmt.Sprintf("%-10s %-11s %-5s %-14s confidence %.4f",
			"updated", d.Asset, d.Direction, d.Strategy, d.Confidence)
	case "signal.closed":
		return fmt.Sprintf("%-10s %-11s %s  pnl %s %%", "closed", d.Asset, d.CloseReason, number(d.PnLPercent))
	case "agent.status":
		return fmt.Sprintf("%-10s %-11s %s", "agent", m.Agent.Agent, m.Agent.Status)
	case "system.notification":
		return fmt.Sprintf("%-10s %s: %s", "notice", m.Notice.Severity, m.Notice.Message)
	case "error":
		return fmt.Sprintf("%-10s %s: %s", "error", m.Refused.Code, m.Refused.Message)
	case "subscribed":
		line := fmt.Sprintf("%-10s %s", "subscribed", strings.Join(m.Subscribed.Channels, ", "))
		if denied := m.Subscribed.Denied; len(denied) > 0 {
			line += "; the key has no scope for " + strings.Join(denied, ", ")
		}
		if m.Subscribed.Gap {
			line += "; earlier events may be missing: see GET /v1/signals"
		}
		return line
	}
	return ""
}

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', -1, 64)
}
