package source

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/actors/market/prices"
	"github.com/agentsignal/agentsignal/actors/market/sessions"
	"github.com/agentsignal/agentsignal/actors/market/simulated"
	"github.com/agentsignal/agentsignal/actors/market/source/alpaca"
	"github.com/agentsignal/agentsignal/actors/market/source/rss"
	"github.com/agentsignal/agentsignal/actors/signal"
)

// HealthCheck is the result of checking a source.
type HealthCheck struct {
	Source string
	Works  bool
	// Took is the time until the answer, Age that of the newest item in it, and Skew the lead of
	// the source's clock; 0 if not known.
	Took, Age, Skew time.Duration
	Note            string // an error, or a remark
}

const (
	// freshFor is the maximum age of the newest 1m bar of a liquid asset while it is traded.
	freshFor = 5 * time.Minute
	// checkBack is the age of the oldest requested bar.
	checkBack = 30 * time.Minute
	// maxSkew is the difference of the clocks above which a remark mentions it.
	maxSkew = 2 * time.Second
)

// CheckHealth checks sources and feeds concurrently. The error reports invalid settings.
func CheckHealth(ctx context.Context, sources string, o Options, now func() time.Time) ([]HealthCheck, error) {
	names, err := ParseSources(sources)
	if err != nil {
		return nil, err
	}
	if err := o.Check(names); err != nil {
		return nil, err
	}
	found := make([]HealthCheck, len(names)+len(o.News))
	var group sync.WaitGroup
	check := func(c *HealthCheck, f func()) {
		group.Go(func() {
			defer func() {
				if reason := recover(); reason != nil {
					c.Works, c.Note = false, fmt.Sprintf("its answer cannot be handled: %v", reason)
				}
			}()
			f()
		})
	}
	for i, name := range names {
		found[i] = HealthCheck{Source: name}
		switch name {
		case simulated.Name:
			found[i].Works, found[i].Note = true, "makes its prices itself"
		case Stream:
			found[i].Works, found[i].Note = true, "prices are written to Redis from outside: not checked"
		default:
			check(&found[i], func() { checkVenue(ctx, &found[i], o, now) })
		}
	}
	client := o.feeds(nil)
	for i, text := range o.News {
		address, _, _ := parseNewsFeed(text) // Check has validated it
		c := &found[len(names)+i]
		u, _ := url.Parse(address)
		c.Source = rss.Name + " " + u.Host
		check(c, func() {
			begun := time.Now()
			items, _, err := rss.New(address, client).Read(ctx)
			c.Took = time.Since(begun)
			switch {
			case err != nil:
				c.Note = err.Error()
			case len(items) == 0:
				c.Note = "the feed has no items"
			default:
				c.Works, c.Note = true, fmt.Sprintf("%d items", len(items))
				dated := 0
				for _, item := range items {
					if age := now().Sub(item.At); !item.At.IsZero() && (dated == 0 || age < c.Age) {
						c.Age = age
						dated++
					}
				}
				if dated == 0 {
					c.Note += " without a readable date: only those that appear later count"
				}
			}
		})
	}
	group.Wait()
	return found, nil
}

// checkVenue requests bars of a liquid asset from a venue.
func checkVenue(ctx context.Context, c *HealthCheck, o Options, now func() time.Time) {
	v := o.Open([]string{c.Source}, slog.New(slog.DiscardHandler), nil)[0]
	asset, class := "BTC", assets.Crypto
	if c.Source == alpaca.Name {
		asset, class = "SPY", assets.Stock
	}
	symbol, _ := v.Symbol(asset, class)
	begun := time.Now()
	at, err := v.Ping(ctx)
	c.Took = time.Since(begun)
	if err != nil {
		c.Note = err.Error()
		return
	}
	if at != 0 {
		c.Skew = prices.Time(at).Sub(now()) + c.Took/2
	}
	current := now()
	session := sessions.Of(class)
	from := current.Add(-checkBack)
	if !session.Open(from) {
		from = current.Add(-sessions.Horizon)
	}
	bars, err := v.Bars(ctx, symbol, signal.M1, from.UnixMilli(), current.UnixMilli())
	if err != nil {
		c.Note = err.Error()
		return
	}
	bars = sanitize(bars, prices.M1, current.UnixMilli(), nil)
	if len(bars) == 0 {
		c.Note = "no bar of " + symbol + " can be used"
		return
	}
	closes := prices.Time(bars[len(bars)-1].CloseTime)
	c.Age = current.Sub(closes)
	if traded := session.Between(closes, current); traded > freshFor {
		c.Note = fmt.Sprintf("the newest bar of %s is old", symbol)
		return
	}
	c.Works, c.Note = true, "bars of "+symbol
	if !session.Open(current) {
		c.Note += "; its market opens at " + session.Next(current).Format(time.RFC3339)
	}
	if c.Skew.Abs() > maxSkew {
		c.Note += "; the clocks differ"
	}
}
