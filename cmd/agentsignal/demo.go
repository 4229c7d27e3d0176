package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/credentials"
)

// The demo runs the trading agent for an account of its own, so that a new user
// sees signals at once.
const (
	demoEmail   = "demo@example.com"
	demoKeyName = "demo"
	demoEvery   = 3 * time.Second
)

// demoRuns are asked for in turn.
var demoRuns = []struct {
	asset, strategy string
	timeframe       signal.Timeframe
}{
	{"BTC", "momentum", signal.H1}, {"ETH", "breakout", signal.M5}, {"AAPL", "mean_reversion", signal.H1}, {"EURUSD", "momentum", signal.M5},
	{"NVDA", "breakout", signal.H1}, {"SOL", "sentiment", signal.H1}, {"XAUUSD", "mean_reversion", signal.M5}, {"natural_gas", "momentum", signal.H1},
}

// runDemo makes the account and a key, prints them, and runs the agent until ctx
// ends.
func (p *process) runDemo(ctx context.Context) error {
	account, password, err := p.demoAccount(ctx)
	if err != nil {
		return fmt.Errorf("make demo account: %w", err)
	}
	key, err := p.demoKey(ctx, account.ID)
	if err != nil {
		return fmt.Errorf("make demo key: %w", err)
	}
	p.printDemo(password, key)
	p.waitForMarket(ctx)
	t := time.NewTicker(demoEvery)
	defer t.Stop()
	for i := 0; ; i++ {
		r := demoRuns[i%len(demoRuns)]
		_, err := p.agents.Run(ctx, signal.RunRequest{Account: account.ID, Agent: "trading", Asset: r.asset, Strategy: r.strategy,
			Timeframe: r.timeframe, Risk: signal.MediumRisk})
		if err != nil && ctx.Err() == nil {
			p.log.Info("demo run made no signal", "asset", r.asset, "strategy", r.strategy, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// demoPatience bounds the wait for the market: it begins within a second.
const demoPatience = 10 * time.Second

// waitForMarket waits until the first run has something to read.
func (p *process) waitForMarket(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	for {
		if _, err := p.market.Series(ctx, demoRuns[0].asset, demoRuns[0].timeframe); err == nil {
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
func (p *process) demoAccount(ctx context.Context) (signal.Account, string, error) {
	password := rand.Text()
	account, err := p.credentials.CreateAccount(ctx, demoEmail, password)
	if signal.KindOf(err) == signal.KindConflict {
		account, err = p.credentials.AccountByEmail(ctx, demoEmail)
		password = ""
	}
	return account, password, err
}

// demoKey makes the demo's key anew: the old one can no longer be shown.
func (p *process) demoKey(ctx context.Context, account signal.AccountID) (string, error) {
	keys, _, err := p.credentials.Keys(ctx, account, mostKeys, 0)
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
		return "", fmt.Errorf("key is not valid: %v", v)
	}
	return secret, err
}

// printDemo tells what a new user needs.
func (p *process) printDemo(password, key string) {
	address := localURL(p.listener.Addr().String(), p.config.TLS)
	if password == "" {
		password = "(as printed at the first start)"
	}
	fmt.Fprintf(p.demo, `
agentsignal runs at %[1]s  (API: %[1]s/docs)

  account   %[2]s
  password  %[3]s
  API key   %[4]s

See signals appear:

  curl -s '%[1]s/v1/signals?limit=3' -H "Authorization: Bearer %[4]s"
  %[6]s tail --url %[5]s/ws/dashboard --key %[4]s

`, address, demoEmail, password, key, "ws"+strings.TrimPrefix(address, "http"), os.Args[0])
}
