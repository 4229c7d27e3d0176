package receive

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

// registration is a webhook that is registered while the local receiver listens.
type registration struct {
	wanted   bool
	from     remote.Flags
	service  *client.Client
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
	g.from.Add(c, ", for --register")
	c.Flags().StringSliceVar(&g.events, "events", events, "types of events, for --register")
	c.Flags().StringVar(&g.endpoint, "endpoint", "",
		"URL under which the service reaches this receiver, for --register; else --addr")
}

// configure checks the flags.
func (g *registration) configure(cmd *cobra.Command) (err error) {
	if !g.wanted {
		return nil
	}
	g.service, err = g.from.Client(cmd)
	return err
}

// begin registers the webhook for the receiver at addr.
func (g *registration) begin(ctx context.Context, addr string) error {
	g.endpoint = cmp.Or(g.endpoint, "http://"+addr)
	made, err := g.service.CreateWebhook(ctx, client.NewWebhook{URL: g.endpoint, Events: g.events, Secret: g.secret,
		Description: "agentsignal webhook listen"})
	if err == nil && made.ID == "" {
		err = fmt.Errorf("the answer %.200q names no webhook", made.JSON)
	}
	if err != nil {
		return fmt.Errorf("register webhook: %w", remote.Explain(err))
	}
	g.id = made.ID
	return nil
}

// end removes the webhook if it is registered.
func (g *registration) end(ctx context.Context) error {
	if g.id == "" {
		return nil
	}
	if err := g.service.RemoveWebhook(ctx, g.id); err != nil {
		return fmt.Errorf("remove webhook %s, which stays: %w", g.id, remote.Explain(err))
	}
	g.id = ""
	return nil
}
