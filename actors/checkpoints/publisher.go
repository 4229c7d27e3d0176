package checkpoints

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/engine"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
)

// Subscribers reads the webhooks of accounts. See deliveries.Store of persistence.
type Subscribers interface {
	AccountsWithWebhooks(ctx context.Context, partition int) ([]signal.AccountID, error)
	Webhooks(ctx context.Context, account signal.AccountID) ([]delivery.Webhook, error)
}

// EventLog appends events. See eventlog.Log of persistence.
type EventLog interface {
	Append(ctx context.Context, c signal.Change) (signal.Position, error)
}

// Messages to the publisher.
type (
	webhooksChanged struct{}
	publishDue      struct{}
	published       struct {
		to  map[signal.AccountID]time.Time
		err error
	}
)

const (
	// pollEvery is how often a publisher with subscribers looks for a new checkpoint.
	pollEvery = 5 * time.Second
	// publishEvery is the least time between two checkpoints that an account gets, in times of
	// Options.Every: a minute unless set.
	publishEvery = 6
)

// publisher is the actor that publishes checkpoints as events log.checkpoint of the accounts of a
// partition that have a webhook for them. Without such an account it does nothing. An account gets
// at most one checkpoint in publishEvery times Options.Every, always the newest. After a change of the owner the
// newest is published again.
type publisher struct {
	o *owned
	// to has the time of the checkpoint that each account got last, zero for none.
	to      map[signal.AccountID]time.Time
	running bool
	changed bool // webhooks have changed since they were read
	failing bool
	timer   engine.Timer
}

// Receive implements engine.Actor.
func (p *publisher) Receive(c engine.Context) {
	switch m := c.Message().(type) {
	case engine.Started, webhooksChanged:
		p.changed = true
		p.publish(c)
	case publishDue:
		p.publish(c)
	case published:
		p.onPublished(c, m)
	}
}

func (p *publisher) publish(c engine.Context) {
	if p.running {
		return
	}
	p.timer.Stop()
	o, to, changed := p.o, p.to, p.changed
	p.running, p.changed = true, false
	c.Go(func(ctx context.Context) any {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		if changed {
			var err error
			if to, err = o.subscribers(ctx, to); err != nil {
				return published{nil, err}
			}
		}
		to, err := o.publish(ctx, to)
		return published{to, err}
	})
}

func (p *publisher) onPublished(c engine.Context, m published) {
	p.running = false
	if m.to == nil {
		p.changed = true // they could not be read
	} else {
		p.to = m.to
	}
	switch {
	case p.o.Refused(m.err):
		return
	case m.err != nil:
		if !p.failing {
			p.o.log.Warn("checkpoints are not published", "err", m.err)
		}
		p.failing = true
		p.timer = c.After(retryEvery, publishDue{})
		return
	}
	p.failing = false
	if p.changed {
		p.publish(c)
	} else if len(p.to) > 0 {
		p.timer = c.After(pollEvery, publishDue{})
	}
}

// subscribers returns the accounts with an enabled webhook for log.checkpoint, with the times in
// to.
func (o *owned) subscribers(ctx context.Context, to map[signal.AccountID]time.Time) (map[signal.AccountID]time.Time, error) {
	accounts, err := o.options.Subscribers.AccountsWithWebhooks(ctx, o.Partition)
	if err != nil {
		return nil, err
	}
	all := make(map[signal.AccountID]time.Time)
	for _, account := range accounts {
		webhooks, err := o.options.Subscribers.Webhooks(ctx, account)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(webhooks, func(w delivery.Webhook) bool {
			return w.Status == delivery.WebhookEnabled && slices.Contains(w.Events, signal.LogCheckpoint)
		}) {
			all[account] = to[account]
		}
	}
	return all, nil
}

// publish appends the newest checkpoint to the event log of each account that has not got one for
// publishEvery times Options.Every, and returns what each has got.
func (o *owned) publish(ctx context.Context, to map[signal.AccountID]time.Time) (map[signal.AccountID]time.Time, error) {
	got := make(map[signal.AccountID]time.Time, len(to))
	for account, at := range to {
		got[account] = at
	}
	if len(to) == 0 {
		return got, nil
	}
	newest, err := o.store.Checkpoint(ctx)
	if signal.KindOf(err) == signal.KindNotFound {
		return got, nil
	}
	if err != nil {
		return got, err
	}
	data, err := checkpointData(newest)
	if err != nil {
		return got, err
	}
	for account, last := range to {
		if age := newest.At.Sub(last); !last.IsZero() && age >= 0 && age < publishEvery*o.options.Every {
			continue
		}
		_, err := o.options.Events.Append(ctx, signal.Change{
			Account: account,
			Epoch:   o.Epoch,
			Events: []signal.Event{{
				ID:      signal.NewEventID(),
				Account: account,
				Type:    signal.LogCheckpoint,
				Data:    data,
			}},
		})
		if err != nil {
			return got, err
		}
		got[account] = newest.At
	}
	return got, nil
}

// checkpointData returns the payload of log.checkpoint.
func checkpointData(c *record.Signed) ([]byte, error) {
	return json.Marshal(struct {
		Checkpoint string       `json:"checkpoint"`
		Heads      verify.Entry `json:"heads"`
		SignedAt   string       `json:"signed_at"`
		Leaves     int64        `json:"leaves"`
	}{string(c.Note), c.Entry, c.At.UTC().Format(signal.TimeLayout), c.Size()})
}
