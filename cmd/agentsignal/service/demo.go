package service

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/configs"
)

// The demo runs agents for an account of its own, so that a new user sees signals at once.
const (
	demoEmail   = "demo@example.com"
	demoKeyName = "demo"
)

// demoNetworks lets the demo's webhooks reach receivers on this machine, unless other
// networks are configured.
var demoNetworks = []string{"127.0.0.0/8", "::1/128"}

// demoSchedules are the schedules of the demo account. They are created only if it has none,
// so that those that the user has removed are not created again.
var demoSchedules = []signal.Schedule{
	demoSchedule("trading", "momentum", signal.M1, 0, 1, "BTC", "ETH", "EURUSD"),
	demoSchedule("trading", "breakout", signal.M5, 0, 2, "SOL", "NVDA", "XAUUSD"),
	demoSchedule("trading", "mean_reversion", signal.M5, 0, 1, "AAPL", "GBPUSD"),
	demoSchedule("trading", "momentum", signal.H1, 0, 3, "MSFT", "TSLA", "natural_gas"),
	demoSchedule("trading", "sentiment", signal.H1, 2*time.Minute, 1, "BTC", "AAPL"),
	demoSchedule("weather", "energy_demand", signal.D1, 5*time.Minute, 1, "natural_gas", "oil"),
	demoSchedule("seo", "blog_post", signal.H1, time.Hour, 1, "standing desk"),
}

func demoSchedule(
	agent signal.AgentID, strategy string, tf signal.Timeframe, every time.Duration, maxOpen int, assets ...string,
) signal.Schedule {
	return signal.Schedule{
		Agent:     agent,
		Strategy:  strategy,
		Timeframe: tf,
		Every:     every,
		MaxOpen:   maxOpen,
		Assets:    assets,
		Risk:      signal.MediumRisk,
		Status:    signal.ScheduleEnabled,
	}
}

// runDemo creates the account with a key and schedules, and prints them.
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

// addDemoSchedules creates the schedules of the account, unless it has schedules.
func (p *process) addDemoSchedules(ctx context.Context, account signal.AccountID) error {
	list, err := p.schedules.Schedules(ctx, account)
	if err != nil || len(list) > 0 {
		return err
	}
	for _, s := range demoSchedules {
		now := p.store.Client.Now().UTC().Truncate(time.Millisecond)
		s.ID, s.Account = signal.NewScheduleID(), account
		s.CreatedAt, s.UpdatedAt = now, now
		s.NextRunAt = s.FirstRun(now, s.Fastest(func(asset string) int64 { return p.speedOf(ctx, asset) }))
		if _, err := p.schedules.AddSchedule(ctx, s, len(demoSchedules)); err != nil {
			return err
		}
	}
	return nil
}

// maxDemoWait limits the wait for the market, which starts within a second.
const maxDemoWait = 10 * time.Second

// waitForMarket waits until the first run has bars to read.
func (p *process) waitForMarket(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxDemoWait)
	defer cancel()
	for {
		_, err := p.market.Series(ctx, demoSchedules[0].Assets[0], demoSchedules[0].Timeframe)
		if err == nil || !backoff.Sleep(ctx, 50*time.Millisecond) {
			return
		}
	}
}

// demoAccount returns the account, and its password if it has been created now.
func (p *process) demoAccount(ctx context.Context) (credential.Account, string, error) {
	password := rand.Text()
	account, err := p.credentials.CreateAccount(ctx, demoEmail, password)
	if signal.KindOf(err) == signal.KindConflict {
		account, err = p.credentials.AccountByEmail(ctx, demoEmail)
		password = ""
	}
	return account, password, err
}

// demoKey returns the secret of the demo's key: the one that its file has, if it still is, else that of
// a new key, which it writes there.
func (p *process) demoKey(ctx context.Context, account signal.AccountID) (string, error) {
	keys, _, err := p.credentials.Keys(ctx, account, math.MaxInt, 0)
	if err != nil {
		return "", err
	}
	path := filepath.Join(p.config.DataDir, remote.DemoKeyFile)
	text, err := remote.ReadPrivate(path)
	kept := strings.TrimSpace(string(text))
	var who signal.Principal
	if err == nil && kept != "" {
		who, err = p.credentials.Authenticate(ctx, kept)
		if signal.KindOf(err) == signal.KindUnavailable {
			return "", err
		}
	}
	for _, k := range keys {
		if k.Name != demoKeyName {
			continue
		}
		if err == nil && who.Account == account && who.Key == k.ID {
			return kept, nil
		}
		if err := p.credentials.RevokeKey(ctx, account, k.ID); err != nil {
			return "", err
		}
	}
	_, secret, err := p.credentials.CreateKey(ctx, account, demoKeyName, nil, nil)
	if err == nil {
		err = remote.WritePrivate(path, []byte(secret+"\n"))
	}
	return secret, err
}

// printDemo prints the account and how to use it.
func (p *process) printDemo(password, key string) {
	address := remote.LocalURL(p.listener.Addr().String(), p.config.TLS.CertFile != "")
	file := filepath.Join(absolute(p.config.DataDir), remote.DemoKeyFile)
	flags, dir := "", ""
	if address != remote.DefaultURL {
		flags += " --url " + address
	}
	if p.config.DataDir != configs.Default().DataDir {
		dir = " --data-dir " + filepath.Dir(file)
	}
	if password == "" {
		password = fmt.Sprintf("(as printed at the first start; for a new one: %s account set-password --email %s%s)",
			os.Args[0], demoEmail, dir)
	}
	fmt.Fprintf(p.options.Demo, `
agentsignal runs at %[1]s  (API: %[1]s/docs)

  console   %[1]s/dashboard/
  account   %[2]s
  password  %[3]s
  API key   %[4]s
  kept in   %[5]s

Schedules run the agents for this account. In another terminal, watch signals come,
move and close; ask for one; receive events by webhook. In this directory the commands
find the key:

  %[6]s tail%[7]s
  %[6]s webhook listen --register%[7]s
  curl -s %[1]s/v1/agents/trading/run -H "Authorization: Bearer $(cat %[5]s)" -H 'Content-Type: application/json'`+
		` -d '{"asset": "BTC", "strategy": "momentum"}'

`, address, demoEmail, password, key, file, os.Args[0], flags+dir)
}
