package service

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/backoff"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/persistence/agents"
	"github.com/agentsignal/agentsignal/persistence/schedules"
)

// The demo runs agents for an account of its own, so that a new user sees signals at once.
const (
	demoEmail   = "demo@example.com"
	demoKeyName = "demo"
)

// demoNetworks lets the demo's webhooks reach receivers on this machine, unless other
// networks are configured.
var demoNetworks = []string{"127.0.0.0/8", "::1/128"}

// demoSchedules are the schedules of the demo account. They and demoAgent are created only if it has no schedule,
// so that what the user has removed is not created again.
var demoSchedules = []signal.Schedule{
	demoSchedule("trading", "momentum", signal.M1, 0, 1, "BTC", "ETH", "EURUSD"),
	demoSchedule("trading", "breakout", signal.M5, 0, 2, "SOL", "NVDA", "XAUUSD"),
	demoSchedule("trading", "mean_reversion", signal.M5, 0, 1, "AAPL", "GBPUSD"),
	demoSchedule("trading", "momentum", signal.H1, 0, 3, "MSFT", "TSLA", "natural_gas"),
	demoSchedule("trading", "sentiment", signal.H1, 2*time.Minute, 1, "BTC", "AAPL"),
	demoSchedule(demoAgent.ID, demoAgent.Strategies[0], signal.M5, 0, 1, "BTC", "ETH"),
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

// demo creates the demo account.
type demo struct {
	out        io.Writer // to which the account is printed; nil: no demo
	config     configs.Config
	listener   net.Listener
	prices     *prices
	access     *credentials.Service
	schedules  *schedules.Store
	agents     *agents.Store
	background *background
}

// run creates the account with a key and schedules, and prints them.
func (d *demo) run(ctx context.Context) error {
	if d.out == nil {
		return nil
	}
	account, password, err := d.account(ctx)
	if err != nil {
		return fmt.Errorf("make demo account: %w", err)
	}
	key, err := d.key(ctx, account.ID)
	if err != nil {
		return fmt.Errorf("make demo key: %w", err)
	}
	list, err := d.schedules.Schedules(ctx, account.ID)
	if err != nil {
		return fmt.Errorf("read demo schedules: %w", err)
	}
	if err := d.startAgent(ctx, account.ID, len(list) == 0); err != nil {
		return fmt.Errorf("start demo agent: %w", err)
	}
	d.waitForMarket(ctx)
	if len(list) == 0 {
		if err := d.addSchedules(ctx, account.ID); err != nil {
			return fmt.Errorf("make demo schedules: %w", err)
		}
	}
	d.print(password, key)
	return nil
}

// addSchedules creates the schedules of the account.
func (d *demo) addSchedules(ctx context.Context, account signal.AccountID) error {
	for _, s := range demoSchedules {
		now := d.prices.now().UTC().Truncate(time.Millisecond)
		s.ID, s.Account = signal.NewScheduleID(), account
		s.CreatedAt, s.UpdatedAt = now, now
		s.NextRunAt = s.FirstRun(now, s.Fastest(func(asset string) int64 { return d.prices.speedOf(ctx, asset) }))
		if _, err := d.schedules.AddSchedule(ctx, s, len(demoSchedules)); err != nil {
			return err
		}
	}
	return nil
}

// maxDemoWait limits the wait for the market, which starts within a second.
const maxDemoWait = 10 * time.Second

// waitForMarket waits until the first run has bars to read.
func (d *demo) waitForMarket(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxDemoWait)
	defer cancel()
	for {
		_, err := d.prices.market.Series(ctx, demoSchedules[0].Assets[0], demoSchedules[0].Timeframe)
		if err == nil || !backoff.Sleep(ctx, 50*time.Millisecond) {
			return
		}
	}
}

// account returns the account, and its password if it has been created now.
func (d *demo) account(ctx context.Context) (credential.Account, string, error) {
	password := rand.Text()
	account, err := d.access.Accounts.CreateAccount(ctx, demoEmail, password)
	if signal.KindOf(err) == signal.KindConflict {
		account, err = d.access.Accounts.AccountByEmail(ctx, demoEmail)
		password = ""
	}
	return account, password, err
}

// key returns the secret of the demo's key: the one that its file has, if it still is, else that of
// a new key, which it writes there.
func (d *demo) key(ctx context.Context, account signal.AccountID) (string, error) {
	keys, _, err := d.access.Keys.List(ctx, account, math.MaxInt, 0)
	if err != nil {
		return "", err
	}
	path := filepath.Join(d.config.DataDir, remote.DemoKeyFile)
	text, err := remote.ReadPrivate(path)
	kept := strings.TrimSpace(string(text))
	var who signal.Principal
	if err == nil && kept != "" {
		who, err = d.access.Authenticator.Authenticate(ctx, kept)
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
		if err := d.access.Keys.RevokeKey(ctx, account, k.ID); err != nil {
			return "", err
		}
	}
	_, secret, err := d.access.Keys.CreateKey(ctx, account, demoKeyName, nil, nil)
	if err == nil {
		err = remote.WritePrivate(path, []byte(secret+"\n"))
	}
	return secret, err
}

// print prints the account and how to use it.
func (d *demo) print(password, key string) {
	address := remote.LocalURL(d.listener.Addr().String(), d.config.TLS.CertFile != "")
	file := filepath.Join(absolute(d.config.DataDir), remote.DemoKeyFile)
	flags, dir := "", ""
	if address != remote.DefaultURL {
		flags += " --url " + address
	}
	if d.config.DataDir != configs.Default().DataDir {
		dir = " --data-dir " + filepath.Dir(file)
	}
	if password == "" {
		password = fmt.Sprintf("(as printed at the first start; for a new one: %s account set-password --email %s%s)",
			os.Args[0], demoEmail, dir)
	}
	fmt.Fprintf(d.out, `
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
