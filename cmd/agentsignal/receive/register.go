package receive

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
)

// registration is a webhook that is registered while the local receiver listens.
type registration struct {
	wanted   bool
	service  string
	address  *url.URL // the parsed service
	keys     remote.KeyFlags
	key      string
	events   []string
	endpoint string // URL of the webhook; empty: the address of the receiver
	secret   string

	id string // of the webhook while it is registered
}

func (g *registration) add(c *cobra.Command) {
	var events []string
	for _, e := range delivery.WebhookEvents {
		if e != signal.LogCheckpoint { // one a minute that few come to see
			events = append(events, string(e))
		}
	}
	c.Flags().BoolVar(&g.wanted, "register", false, "make a webhook for this address, and remove it at the end")
	c.Flags().StringVar(&g.service, "url", "http://localhost:8080", "address of the service, for --register")
	g.keys.Add(c, " with webhooks:manage, for --register")
	c.Flags().StringSliceVar(&g.events, "events", events, "types of events, for --register")
	c.Flags().StringVar(&g.endpoint, "endpoint", "",
		"URL under which the service reaches this receiver, for --register; else --addr")
}

// configure checks the flags.
func (g *registration) configure(cmd *cobra.Command) (err error) {
	if !g.wanted {
		return nil
	}
	if g.address, err = remote.ParseAddress(g.service); err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	g.key, err = g.keys.Read(cmd)
	return err
}

// begin registers the webhook for the receiver at addr.
func (g *registration) begin(ctx context.Context, addr string) error {
	g.endpoint = cmp.Or(g.endpoint, "http://"+addr)
	body, err := json.Marshal(map[string]any{"url": g.endpoint, "events": g.events, "secret": g.secret,
		"description": "agentsignal webhook listen"})
	if err != nil {
		return err
	}
	text, err := remote.Ask(ctx, g.address, g.key, http.MethodPost, "/v1/webhooks", body)
	if err != nil {
		return fmt.Errorf("register webhook: %w", err)
	}
	var record struct {
		ID string `json:"webhook_id"`
	}
	if err := json.Unmarshal(text, &record); err != nil || record.ID == "" {
		return fmt.Errorf("register webhook: the answer %.200q names no webhook", text)
	}
	g.id = record.ID
	return nil
}

// end removes the webhook if it is registered.
func (g *registration) end(ctx context.Context) error {
	if g.id == "" {
		return nil
	}
	if _, err := remote.Ask(ctx, g.address, g.key, http.MethodDelete, "/v1/webhooks/"+g.id, nil); err != nil {
		return fmt.Errorf("remove webhook %s, which stays: %w", g.id, err)
	}
	g.id = ""
	return nil
}
