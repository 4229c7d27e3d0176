package terminal

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

// webhookColumns are the columns of the list of webhooks.
var webhookColumns = []column[client.Webhook]{
	{"webhook_id", func(w *client.Webhook) any { return w.ID }},
	{"status", func(w *client.Webhook) any {
		if w.DisabledReason != "" {
			return w.Status + " (" + w.DisabledReason + ")"
		}
		return w.Status
	}},
	{"failing_since", func(w *client.Webhook) any { return w.FailingSince }},
	{"held_until", func(w *client.Webhook) any { return w.HeldUntil }},
	{"format", func(w *client.Webhook) any { return w.Format }},
	{"events", func(w *client.Webhook) any { return strings.Join(w.Events, ",") }},
	{"url", func(w *client.Webhook) any { return w.URL }},
	{"description", func(w *client.Webhook) any { return w.Description }},
}

// deliveryColumns are the columns of lists of deliveries.
var deliveryColumns = []column[client.Delivery]{
	{"created_at", func(d *client.Delivery) any { return d.CreatedAt }},
	{"delivery_id", func(d *client.Delivery) any { return d.ID }},
	{"webhook_id", func(d *client.Delivery) any { return d.Webhook }},
	{"event_type", func(d *client.Delivery) any { return d.Type }},
	{"status", func(d *client.Delivery) any { return d.Status }},
	{"attempt_count", func(d *client.Delivery) any { return d.Attempts }},
	{"error", func(d *client.Delivery) any {
		if d.ResponseStatus == nil {
			return d.Error
		}
		return cmp.Or(d.Error, "status "+strconv.Itoa(*d.ResponseStatus))
	}},
}

func webhookList(dataDir func() (string, error)) *cobra.Command {
	var s session
	c := &cobra.Command{
		Use: "list", Short: "List webhooks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			all, err := client.Collect(c.Webhooks(cmd.Context()))
			if err != nil {
				return remote.Explain(err)
			}
			return list(p, "webhooks", webhookColumns, all)
		},
	}
	s.add(c, dataDir)
	return c
}

func webhookFailed(dataDir func() (string, error)) *cobra.Command {
	var s session
	var limit int
	c := &cobra.Command{
		Use: "failed [WEBHOOK_ID]", Short: "List deliveries that failed, the newest first", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			all, err := client.Collect(c.Deliveries(cmd.Context(), strings.Join(args, ""), "failed", limit))
			if err != nil {
				return remote.Explain(err)
			}
			if p.form != formJSON {
				addReasons(cmd.Context(), c, all)
			}
			return list(p, "failed deliveries", deliveryColumns, all)
		},
	}
	limitFlag(c, &limit)
	s.add(c, dataDir)
	return c
}

// notMade is the error of deliveries without a request, to which lists add no reason.
const notMade = "message not made"

// maxReasons limits the requests of addReasons.
const maxReasons = 25

// addReasons asks for the reasons for which no message was made of the newest of the deliveries.
func addReasons(ctx context.Context, c *client.Client, all []*client.Delivery) {
	asked := 0
	for _, d := range all {
		if d.Error != notMade || asked == maxReasons {
			continue
		}
		asked++
		if full, err := c.Delivery(ctx, d.Webhook, d.ID); err == nil {
			d.Error = full.Error
		}
	}
}

func webhookRetry(dataDir func() (string, error)) *cobra.Command {
	var s session
	c := &cobra.Command{
		Use: "retry WEBHOOK_ID [DELIVERY_ID]", Short: "Send failed deliveries to a webhook once more, or one of them",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			if len(args) == 2 {
				d, err := c.RetryDelivery(cmd.Context(), args[0], args[1])
				if err != nil {
					return remote.Explain(err)
				}
				if p.form == formText {
					return list(p, "deliveries", deliveryColumns, []*client.Delivery{d})
				}
				return one(p, deliveryColumns, d)
			}
			r, err := c.RetryDeliveries(cmd.Context(), args[0])
			if err != nil {
				return remote.Explain(err)
			}
			if p.form == formJSON {
				return p.JSON(r.Raw())
			}
			return p.table([]string{"retried"}, [][]any{{r.Count}})
		},
	}
	s.add(c, dataDir)
	return c
}
