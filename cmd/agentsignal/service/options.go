package service

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/source"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/http/limits"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// checkOptions returns the faults of settings that are parsed by the packages that use them.
func checkOptions(c configs.Config) error {
	var faults []error
	fault := func(key string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", key, err))
		}
	}
	if c.Redis.URL != "" {
		faults = append(faults, redisclient.CheckURL(string(c.Redis.URL), c.Redis.CAFile))
	}
	sources, err := source.ParseSources(c.Market.Source)
	real := RealSources(c.Market)
	faults = append(faults, err, real.Check(sources))
	_, err = configs.ParseKeys(string(c.Auth.JWTKeys))
	fault(settingJWTKeys, err)
	_, err = configs.ParseKeys(string(c.Security.EncryptionKeys))
	fault(settingEncryptionKeys, err)
	if keys := c.Security.RecordKeys; keys != "" {
		_, err = record.ParseKeys(string(keys))
		fault(settingRecordKeys, err)
	}
	_, err = record.ParseWitnesses(c.Record.Witnesses)
	fault("record.witnesses", err)
	_, err = newMailer(c.Email)
	fault("email.smtp_url", err)
	_, err = quotasOf(c.RateLimit)
	_, err2 := contentWriter(c, nil)
	faults = append(faults, err, err2)
	for _, id := range c.Agents.Disabled {
		fault("agents.disabled", knownAgent(id))
	}
	return errors.Join(faults...)
}

// RealSources returns the options of the real sources of prices and news.
func RealSources(c configs.Market) source.Options {
	return source.Options{
		BinanceURL:       c.BinanceURL,
		BinanceStreamURL: c.BinanceStreamURL,
		CoinbaseURL:      c.CoinbaseURL,
		AlpacaURL:        c.AlpacaURL,
		AlpacaKey:        string(c.AlpacaKey),
		AlpacaSecret:     string(c.AlpacaSecret),
		AlpacaFeed:       c.AlpacaFeed,
		News:             c.NewsFeeds,
	}
}

// knownAgent returns an error for an unknown agent.
func knownAgent(id string) error {
	var known []string
	for _, a := range signal.Agents() {
		known = append(known, string(a.ID))
	}
	if slices.Contains(known, id) {
		return nil
	}
	return fmt.Errorf("unknown agent %q: use %s", id, strings.Join(known, ", "))
}

// quotasOf parses the configured quotas. The error lists all faults.
func quotasOf(c configs.RateLimit) (limits.Quotas, error) {
	quotas := limits.Quotas{}
	var faults []error
	for class, text := range map[limits.Class]string{
		limits.Reads:         c.Reads,
		limits.Runs:          c.Runs,
		limits.Intakes:       c.Intakes,
		limits.Writes:        c.Writes,
		limits.Streams:       c.Streams,
		limits.Logins:        c.Logins,
		limits.Registrations: c.Registrations,
		limits.Sessions:      c.Sessions,
		limits.Failures:      c.Failures,
		limits.Pages:         c.Pages,
		limits.Scrapes:       c.Scrapes,
	} {
		q, err := limits.ParseQuota(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("rate_limit.%s: %w", class, err))
		}
		quotas[class] = q
	}
	return quotas, errors.Join(faults...)
}

// parsePrefixes parses the networks of a setting.
func parsePrefixes(key string, networks []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, n := range networks {
		p, err := netip.ParsePrefix(n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}

// CostsOf returns the configured costs of trades.
func CostsOf(c configs.Costs) backtest.Costs {
	return backtest.Costs{Crypto: c.Crypto, Stock: c.Stock, FX: c.FX, Commodity: c.Commodity}
}

// costOf returns the cost of an entry or an exit of an asset, as a share of the price.
func costOf(c configs.Costs) func(asset string) float64 {
	return func(asset string) float64 { return CostsOf(c).Of(assets.ClassOf(asset)) }
}
