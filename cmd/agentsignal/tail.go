package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/dashboard"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
)

// tailTimeout is how long the stream may be silent; the service sends a heartbeat every 30 s.
const tailTimeout = 90 * time.Second

// Pauses between attempts to connect.
const (
	minReconnectPause = 500 * time.Millisecond
	maxReconnectPause = 15 * time.Second
)

// tailer follows the dashboard stream.
type tailer struct {
	address  *url.URL // of the service
	key      string
	channels []string
	assets   []string
	raw      bool
	out, err io.Writer
	last     string // ID of the last event, from which a new connection resumes

	connected  bool // has been connected before, so that a failure may be temporary
	subscribed bool // the subscription of this connection is confirmed
}

func tailCommand() *cobra.Command {
	t := &tailer{}
	var address string
	var key remote.KeyFlags
	c := &cobra.Command{
		Use: "tail", Short: "Show the stream of signals in the terminal", Args: cobra.NoArgs,
		Long: "Show the stream of a running service. The API key comes from --key-file or from the\nvariable " +
			remote.KeyVariable +
			". It reconnects after a lost connection, and resumes where it was.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if t.address, err = remote.ParseAddress(address); err != nil {
				return fmt.Errorf("--url: %w", err)
			}
			if err := checkChannels(t.channels); err != nil {
				return err
			}
			if t.key, err = key.Read(cmd); err != nil {
				return err
			}
			t.out, t.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := t.checkAssets(cmd.Context()); err != nil {
				return err
			}
			return t.follow(cmd.Context())
		},
	}
	c.Flags().StringVar(&address, "url", "http://localhost:8080", "address of the service")
	key.Add(c, "")
	c.Flags().StringSliceVar(&t.channels, "channels", shownChannels, "message types to show")
	c.Flags().StringSliceVar(&t.assets, "assets", nil, "show only these assets")
	c.Flags().BoolVar(&t.raw, "json", false, "print the messages as JSON, one per line")
	return c
}

// shownChannels is the default of --channels.
var shownChannels = []string{"signal.new", "signal.updated", "signal.closed", "agent.status", "system.notification"}

// checkChannels refuses channels that the stream does not have.
func checkChannels(names []string) error {
	known := dashboard.ChannelNames()
	for _, name := range names {
		if !slices.Contains(known, name) {
			near := cmp.Or(command.OrNearest(name, known), ".")
			return fmt.Errorf("--channels: no channel %q%s There are %s", name, near, strings.Join(known, ", "))
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
	text, err := remote.Ask(ctx, t.address, t.key, http.MethodGet, "/v1/assets", nil)
	if refused, ok := errors.AsType[*remote.Fault](err); ok && refused.Status != http.StatusForbidden &&
		refused.Status != http.StatusNotFound {
		return err
	}
	if err != nil {
		return nil // a temporary failure, or the key has no scope for the list
	}
	var list struct{ Assets []struct{ Asset string } }
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("read the list of assets: %w", err)
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
	retries := backoff.Backoff{Min: minReconnectPause, Max: maxReconnectPause}
	for {
		began := time.Now()
		err := t.connect(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if _, lasting := errors.AsType[*remote.Fault](err); lasting {
			return err
		}
		if time.Since(began) > maxReconnectPause {
			retries.Reset()
		}
		pause := retries.Next()
		fmt.Fprintf(t.err, "agentsignal: %v; trying again in %v\n", err, pause)
		if !backoff.Sleep(ctx, pause) {
			return nil
		}
	}
}

// connect shows the stream of one connection until it ends.
func (t *tailer) connect(ctx context.Context) error {
	stream := *t.address
	stream.Scheme = "ws" + strings.TrimPrefix(stream.Scheme, "http")
	stream.Path += "/ws/dashboard"
	ws, answer, err := websocket.DefaultDialer.DialContext(ctx, stream.String(),
		http.Header{"Authorization": {"Bearer " + t.key}})
	if err != nil && answer != nil {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<12))
		return remote.AnswerFault(t.address, answer.StatusCode, body)
	}
	if err != nil {
		return remote.ConnectFault(t.address, err, t.connected)
	}
	t.connected = true
	defer ws.Close()
	defer context.AfterFunc(ctx, func() { ws.Close() })()
	subscribe := map[string]any{"action": "subscribe", "channels": t.channels,
		"filters": map[string]any{"assets": t.assets}}
	t.subscribed = false
	if t.last != "" {
		subscribe["last_event_id"] = t.last
	}
	if err := ws.WriteJSON(subscribe); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	ws.SetPingHandler(func(text string) error {
		ws.SetReadDeadline(time.Now().Add(tailTimeout))
		return ws.WriteControl(websocket.PongMessage, []byte(text), time.Now().Add(time.Second))
	})
	for {
		ws.SetReadDeadline(time.Now().Add(tailTimeout))
		_, text, err := ws.ReadMessage()
		if err != nil {
			closing, ok := errors.AsType[*websocket.CloseError](err)
			if ok && slices.Contains([]int{4400, 4401, 4403}, closing.Code) {
				const reason = "the service has closed the connection (%d): %s"
				return &remote.Fault{Text: fmt.Sprintf(reason, closing.Code, closing.Text)}
			}
			return fmt.Errorf("read: %w", err)
		}
		if err := t.show(text); err != nil {
			return err
		}
	}
}

// message holds the shown members of a message of the stream.
type message struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Timestamp string `json:"timestamp"`
	Data      struct {
		SignalID    string   `json:"signal_id"`
		Agent       string   `json:"agent_id"`
		Asset       string   `json:"asset"`
		Strategy    string   `json:"strategy"`
		Direction   string   `json:"direction"`
		Confidence  float64  `json:"confidence"`
		Entry       *float64 `json:"entry_price"`
		Stop        *float64 `json:"stop_loss"`
		Target      *float64 `json:"take_profit"`
		CloseReason string   `json:"close_reason"`
		PnLPercent  *float64 `json:"pnl_percent"`
		Status      string   `json:"status"`
		RunID       string   `json:"run_id"`
		Severity    string   `json:"severity"`
		Message     string   `json:"message"`
		Code        string   `json:"code"`
		Channels    []string `json:"channels"`
		Denied      []string `json:"denied"`
		Resumed     *struct {
			Complete bool `json:"complete"`
			Replayed int  `json:"replayed"`
		} `json:"resumed"`
	} `json:"data"`
}

// show prints one message.
func (t *tailer) show(text []byte) error {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	if m.Type == "subscribed" {
		t.subscribed = true
	}
	if m.Type == "error" && !t.subscribed { // it answers what the flags ask for
		return &remote.Fault{Text: fmt.Sprintf("the service refuses the subscription: %s", m.Data.Message)}
	}
	if m.ID != "" && t.subscribed { // after earlier ones, a resume would skip events
		t.last = m.ID
	}
	if t.raw {
		_, err := fmt.Fprintf(t.out, "%s\n", text)
		return err
	}
	line := describe(&m)
	if line == "" {
		return nil
	}
	at := m.Timestamp
	if v, err := time.Parse(time.RFC3339, m.Timestamp); err == nil {
		at = v.Local().Format("15:04:05.000")
	}
	_, err := fmt.Fprintf(t.out, "%s  %s\n", at, line)
	return err
}

// describe returns the line for m, or "" if m is not shown.
func describe(m *message) string {
	d := &m.Data
	switch m.Type {
	case "signal.new":
		return fmt.Sprintf("%-10s %-11s %-5s %-14s confidence %.4f  entry %s  stop %s  target %s",
			"new", d.Asset, d.Direction, d.Strategy, d.Confidence, number(d.Entry), number(d.Stop), number(d.Target))
	case "signal.updated":
		return fmt.Sprintf("%-10s %-11s %-5s %-14s confidence %.4f",
			"updated", d.Asset, d.Direction, d.Strategy, d.Confidence)
	case "signal.closed":
		return fmt.Sprintf("%-10s %-11s %s  pnl %s %%", "closed", d.Asset, d.CloseReason, number(d.PnLPercent))
	case "agent.status":
		return fmt.Sprintf("%-10s %-11s %s", "agent", d.Agent, d.Status)
	case "system.notification":
		return fmt.Sprintf("%-10s %s: %s", "notice", d.Severity, d.Message)
	case "error":
		return fmt.Sprintf("%-10s %s: %s", "error", d.Code, d.Message)
	case "subscribed":
		line := fmt.Sprintf("%-10s %s", "subscribed", strings.Join(d.Channels, ", "))
		if len(d.Denied) > 0 {
			line += "; the key has no scope for " + strings.Join(d.Denied, ", ")
		}
		if r := d.Resumed; r != nil && !r.Complete {
			line += "; earlier events are no longer held: see GET /v1/signals"
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
