package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/spf13/cobra"
)

// tailPatience is how long the stream may be silent: the service sends a heartbeat
// every 30 s.
const tailPatience = 90 * time.Second

// Pauses between attempts to connect.
const (
	reconnectFirst = 500 * time.Millisecond
	reconnectMost  = 15 * time.Second
)

// tailer follows the dashboard stream.
type tailer struct {
	url, key string
	channels []string
	assets   []string
	raw      bool
	out, err io.Writer
	last     string // position of the last event after a reply, to resume from

	subscribed bool // this connection's subscription is confirmed
}

func tailCommand() *cobra.Command {
	t := &tailer{}
	c := &cobra.Command{
		Use: "tail", Short: "Show the stream of signals in the terminal", Args: cobra.NoArgs,
		Long: "Show the stream of a running service. The API key comes from --key or from the\nvariable AGENTSIGNAL_API_KEY. A lost connection is made again and resumes where it was.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.key == "" {
				t.key = os.Getenv("AGENTSIGNAL_API_KEY")
			}
			if t.key == "" {
				return errors.New("give an API key by --key or AGENTSIGNAL_API_KEY: agentsignal key create makes one")
			}
			t.out, t.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return t.follow(cmd.Context())
		},
	}
	c.Flags().StringVar(&t.url, "url", "ws://localhost:8080/ws/dashboard", "address of the stream")
	c.Flags().StringVar(&t.key, "key", "", "API key or access token")
	c.Flags().StringSliceVar(&t.channels, "channels", []string{"signal.new", "signal.updated", "signal.closed", "agent.status", "system.notification"}, "message types to show")
	c.Flags().StringSliceVar(&t.assets, "assets", nil, "show only these assets")
	c.Flags().BoolVar(&t.raw, "json", false, "print the messages as they come, a line each")
	return c
}

// errRefused says that coming back will not help.
var errRefused = errors.New("the service refuses the connection")

// follow shows the stream until ctx ends, coming back after each interruption.
func (t *tailer) follow(ctx context.Context) error {
	pause := reconnectFirst
	for {
		began := time.Now()
		err := t.connect(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errRefused) {
			return err
		}
		if time.Since(began) > reconnectMost {
			pause = reconnectFirst
		}
		fmt.Fprintf(t.err, "agentsignal: %v; trying again in %v\n", err, pause)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, reconnectMost)
	}
}

// connect shows the stream of one connection until it ends.
func (t *tailer) connect(ctx context.Context) error {
	ws, answer, err := websocket.DefaultDialer.DialContext(ctx, t.url, http.Header{"Authorization": {"Bearer " + t.key}})
	if err != nil {
		if answer != nil && answer.StatusCode/100 == 4 && answer.StatusCode != http.StatusTooManyRequests {
			body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<12))
			return fmt.Errorf("%w: %s %s", errRefused, answer.Status, body)
		}
		return fmt.Errorf("connect: %w", err)
	}
	defer ws.Close()
	defer context.AfterFunc(ctx, func() { ws.Close() })()
	subscribe := map[string]any{"action": "subscribe", "channels": t.channels, "filters": map[string]any{"assets": t.assets}}
	t.subscribed = false
	if t.last != "" {
		subscribe["last_event_id"] = t.last
	}
	if err := ws.WriteJSON(subscribe); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	ws.SetPingHandler(func(text string) error {
		ws.SetReadDeadline(time.Now().Add(tailPatience))
		return ws.WriteControl(websocket.PongMessage, []byte(text), time.Now().Add(time.Second))
	})
	for {
		ws.SetReadDeadline(time.Now().Add(tailPatience))
		_, text, err := ws.ReadMessage()
		if err != nil {
			if websocket.IsCloseError(err, 4400, 4401, 4403) {
				return fmt.Errorf("%w: %v", errRefused, err)
			}
			return fmt.Errorf("read: %w", err)
		}
		if err := t.show(text); err != nil {
			return err
		}
	}
}

// message is a message of the stream, as far as it is shown.
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
	if m.ID != "" && t.subscribed { // what came before says nothing of what a resume still sends
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

// describe returns the line that stands for m; empty for what is not shown.
func describe(m *message) string {
	d := &m.Data
	switch m.Type {
	case "signal.new":
		return fmt.Sprintf("%-10s %-11s %-5s %-14s confidence %.4f  entry %s  stop %s  target %s", "new", d.Asset, d.Direction, d.Strategy,
			d.Confidence, number(d.Entry), number(d.Stop), number(d.Target))
	case "signal.updated":
		return fmt.Sprintf("%-10s %-11s %-5s %-14s confidence %.4f", "updated", d.Asset, d.Direction, d.Strategy, d.Confidence)
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
			line += "; what happened meanwhile is no longer held: see GET /v1/signals"
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
