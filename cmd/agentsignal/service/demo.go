package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/credentials"
)

// The demo runs agents for an account of its own, so that a new user sees signals come,
// move and close at once.
const (
	demoEmail   = "demo@example.com"
	demoKeyName = "demo"
)

// maxDemoKeys is more API keys than an account may have.
const maxDemoKeys = 1000

// demoNetworks let the demo's webhooks reach receivers on the same machine, unless
// other networks are configured.
var demoNetworks = []string{"127.0.0.0/8", "::1/128"}

// demoSchedules are made for the account if it has no schedules: what its user changes or
// removes is not made again.
var demoSchedules = []signal.Schedule{
	{Agent: "trading", Strategy: "momentum", Timeframe: signal.M1, Assets: []string{"BTC", "ETH", "EURUSD"}, MaxOpen: 1},
	{Agent: "trading", Strategy: "breakout", Timeframe: signal.M5, Assets: []string{"SOL", "NVDA", "XAUUSD"}, MaxOpen: 2},
	{Agent: "trading", Strategy: "mean_reversion", Timeframe: signal.M5, Assets: []string{"AAPL", "GBPUSD"}, MaxOpen: 1},
	{Agent: "trading", Strategy: "momentum", Timeframe: signal.H1, Assets: []string{"MSFT", "TSLA", "natural_gas"},
		MaxOpen: 3},
	{Agent: "trading", Strategy: "sentiment", Timeframe: signal.H1, Assets: []string{"BTC", "AAPL"}, MaxOpen: 1,
		Every: 2 * time.Minute},
	{Agent: "weather", Strategy: "energy_demand", Timeframe: signal.D1, Assets: []string{"natural_gas", "oil"}, MaxOpen: 1,
		Every: 5 * time.Minute},
	{Agent: "seo", Strategy: "blog_post", Timeframe: signal.H1, Assets: []string{"standing desk"}, MaxOpen: 1,
		Every: time.Hour},
}

// runDemo makes the account with a key and schedules, and prints them.
func (p *process) runDemo(ctx context.Context) error {
	account, password, err := p.demoAccount(ctx)
	if err != nil {
		return fmt.Errorf("make demo account: %w", err)
	}
	key, err := p.demoKey(ctx, account.ID)
	if err != nil {
		return fmt.Errorf("make demo key: %w", err)
	}
	p.waitForMarket(ctx)
	if err := p.addDemoSchedules(ctx, account.ID); err != nil {
		return fmt.Errorf("make demo schedules: %w", err)
	}
	p.printDemo(password, key)
	return nil
}

// addDemoSchedules makes the schedules of the account, unless it has some.
func (p *process) addDemoSchedules(ctx context.Context, account signal.AccountID) error {
	list, err := p.schedules.Schedules(ctx, account)
	if err != nil || len(list) > 0 {
		return err
	}
	for _, s := range demoSchedules {
		now := p.store.Now().UTC().Truncate(time.Millisecond)
		s.ID, s.Account = signal.NewScheduleID(), account
		s.Risk, s.Status = signal.MediumRisk, signal.ScheduleEnabled
		s.CreatedAt, s.UpdatedAt = now, now
		s.NextRunAt = s.FirstRun(now, s.Fastest(func(asset string) int64 { return p.speedOf(ctx, asset) }))
		if _, err := p.schedules.AddSchedule(ctx, s, len(demoSchedules)); err != nil {
			return err
		}
	}
	return nil
}

// maxDemoWait bounds the wait for the market, which begins within a second.
const maxDemoWait = 10 * time.Second

// waitForMarket waits until the first run has something to read.
func (p *process) waitForMarket(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxDemoWait)
	defer cancel()
	for {
		if _, err := p.market.Series(ctx, demoSchedules[0].Assets[0], demoSchedules[0].Timeframe); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// demoAccount returns the account, and its password if it was made now.
func (p *process) demoAccount(ctx context.Context) (credential.Account, string, error) {
	password := rand.Text()
	account, err := p.credentials.CreateAccount(ctx, demoEmail, password)
	if signal.KindOf(err) == signal.KindConflict {
		account, err = p.credentials.AccountByEmail(ctx, demoEmail)
		password = ""
	}
	return account, password, err
}

// demoKey replaces the demo's key: the secret of the old one is not stored, so it cannot be
// printed again.
func (p *process) demoKey(ctx context.Context, account signal.AccountID) (string, error) {
	keys, _, err := p.credentials.Keys(ctx, account, maxDemoKeys, 0)
	if err != nil {
		return "", err
	}
	for _, k := range keys {
		if k.Name == demoKeyName {
			if err := p.credentials.RevokeKey(ctx, account, k.ID); err != nil {
				return "", err
			}
		}
	}
	_, secret, err := p.credentials.CreateKey(ctx, account, demoKeyName, nil, nil)
	if v, ok := errors.AsType[credentials.ValidationError](err); ok {
		return "", fmt.Errorf("key is not valid: %w", v)
	}
	return secret, err
}

// printDemo prints what a new user needs.
func (p *process) printDemo(password, key string) {
	address := remote.LocalURL(p.listener.Addr().String(), p.config.TLS)
	if password == "" {
		password = "(as printed at the first start)"
	}
	fmt.Fprintf(p.options.Demo, `
agentsignal runs at %[1]s  (API: %[1]s/docs)

  account   %[2]s
  password  %[3]s
  API key   %[4]s

Schedules run the agents for this account. In another terminal, watch signals come,
move and close; ask for one; receive events by webhook:

  export %[5]s=%[4]s
  %[6]s tail --url %[1]s
  curl -s %[1]s/v1/agents/trading/run -H "Authorization: Bearer $%[5]s" -H 'Content-Type: application/json'`+
		` -d '{"asset": "BTC", "strategy": "momentum"}'
  %[6]s webhook listen --register --url %[1]s

`, address, demoEmail, password, key, remote.KeyVariable, os.Args[0])
}
