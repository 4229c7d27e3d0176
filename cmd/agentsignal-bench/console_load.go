package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/persistence/market"
)

const (
	consoleAssets  = 20
	consoleWriters = 32
	consoleTicks   = 100 * time.Millisecond // between the prices of an asset
	consoleLife    = 10 * time.Second       // until a signal that reaches its target has done so
	consoleQuiet   = 30 * time.Second
	consoleListed  = 100 // signals of a page of GET /v1/signals
)

// consoleMetadata is as long as that of a run, and has what a row shows.
const consoleMetadata = `{"indicators":["ema_12_26","adx_14","atr_14"],` +
	`"reasoning":"EMA12 is 0.8 ATR above EMA26; ADX 27 confirms a trend. Chance 0.4172 (0.4013 to 0.4331), ` +
	`which does not contain break-even after costs at 0.4493.","timeframe":"1h","atr":412.5,` +
	`"reward_risk":1.5,"break_even":0.4051,"break_even_net":0.4493,"expected_r":0.0289,"expected_r_net":-0.0714,` +
	`"calibration":{"outcomes":5000,"low":0.4013,"high":0.4331}}`

// consoleLoad makes the signals of one account and gives prices, as agents and a source do.
// A stream of its own counts what the service publishes.
type consoleLoad struct {
	rig    *rig
	addr   string
	prices *market.Store
	stream *websocket.Conn

	made   int
	price  float64
	closes bool // the price rises, so that each signal reaches its target after consoleLife

	published, closed atomic.Int64
	failed            chan error // of the stream
}

func newConsoleLoad(ctx context.Context, r *rig, s *server) (*consoleLoad, error) {
	ws, _, err := websocket.DefaultDialer.DialContext(ctx, "ws://"+s.addr+"/ws/dashboard?api_key="+r.keys[0], nil)
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	subscribe := map[string]any{"action": "subscribe", "channels": []string{"signal.new", "signal.closed"}}
	if err := ws.WriteJSON(subscribe); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe: %w", err), ws.Close())
	}
	l := &consoleLoad{rig: r, addr: s.addr, prices: market.New(r.store.Client), stream: ws, price: 100,
		failed: make(chan error, 1)}
	go l.count()
	return l, nil
}

// count counts what the service publishes, until the stream is closed.
func (l *consoleLoad) count() {
	for {
		var message struct{ Type string }
		if err := l.stream.ReadJSON(&message); err != nil {
			l.failed <- fmt.Errorf("read stream: %w", err)
			return
		}
		switch message.Type {
		case "signal.new":
			l.published.Add(1)
		case "signal.closed":
			l.closed.Add(1)
		}
	}
}

// run makes n signals at a rate and returns the rate that it reached.
func (l *consoleLoad) run(ctx context.Context, n int, rate float64) (float64, error) {
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(consoleWriters)
	start := time.Now()
	nextTick := start
	for i := 0; i < n && working.Err() == nil; i++ {
		due := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		if now := time.Now(); !now.Before(nextTick) {
			nextTick = now.Add(consoleTicks)
			if err := l.tick(ctx, now); err != nil {
				return 0, errors.Join(err, group.Wait())
			}
		}
		s := l.newSignal()
		group.Go(func() error {
			listing := s.Listing()
			data := signal.AppendMembers([]byte{'{'}, s)
			data = append(append(append(data, `,"metadata":`...), s.Metadata...), '}')
			event := signal.Event{Type: signal.SignalCreated, Asset: s.Asset, Listing: &listing, Data: data}
			_, err := l.rig.log.Append(working, signal.Change{Account: s.Account, Signal: s, Events: []signal.Event{event}})
			return err
		})
	}
	err := group.Wait()
	return float64(n) / time.Since(start).Seconds(), cmp.Or(err, ctx.Err())
}

// newSignal returns the next signal at the current price.
func (l *consoleLoad) newSignal() *signal.Signal {
	s := l.rig.signals.newSignal(l.rig.ids[0], consoleAsset(l.made%consoleAssets))
	s.Metadata = []byte(consoleMetadata)
	s.Confidence = float64(4000+l.made%1000) / 10_000
	if s.Levels = (&signal.Levels{Entry: l.price, Stop: l.price / 10, Target: l.price * 3}); l.closes {
		s.Levels = &signal.Levels{Entry: l.price, Stop: l.price - 1.5, Target: l.price + 1}
	}
	l.made++
	return s
}

// tick gives the next price of each asset. Where no signal should close it only dips, so
// that rows change.
func (l *consoleLoad) tick(ctx context.Context, now time.Time) error {
	price := l.price - .1*float64(now.Second()%4)
	if l.closes {
		l.price += consoleTicks.Seconds() / consoleLife.Seconds()
		price = l.price
	}
	ticks := make([]marketdata.AssetTick, consoleAssets)
	for i := range ticks {
		tick := marketdata.Tick{Price: price, Volume: 1, Time: now.UnixMilli()}
		ticks[i] = marketdata.AssetTick{Asset: consoleAsset(i), Tick: tick}
	}
	return l.prices.GiveTicks(ctx, ticks)
}

func consoleAsset(i int) string { return fmt.Sprintf("C%02d", i) }

// settle waits until the service has published all that was made, and all that has closed.
func (l *consoleLoad) settle(ctx context.Context) error {
	var total int
	err := until(ctx, consoleQuiet, 100*time.Millisecond, func() (bool, error) {
		select {
		case err := <-l.failed:
			return false, err
		default:
		}
		page, err := l.list(ctx, "closed", 1, 0)
		total = page.Total
		return err == nil && l.published.Load() == int64(l.made) && l.closed.Load() == int64(total), err
	})
	if err != nil {
		return fmt.Errorf("made %d and published %d, closed %d and published %d: %w",
			l.made, l.published.Load(), total, l.closed.Load(), err)
	}
	return nil
}

// listedPage is a page of GET /v1/signals.
type listedPage struct {
	Signals []listedSignal
	Total   int
}

type listedSignal struct {
	ID        string `json:"signal_id"`
	CreatedAt string `json:"created_at"`
	UpdatedAt string `json:"updated_at"`
}

func (l *consoleLoad) list(ctx context.Context, status string, limit, offset int) (listedPage, error) {
	url := fmt.Sprintf("http://%s/v1/signals?view=full&status=%s&limit=%d&offset=%d", l.addr, status, limit, offset)
	var page listedPage
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return page, err
	}
	q.Header.Set("Authorization", "Bearer "+l.rig.keys[0])
	answer, err := (&http.Client{Timeout: requestTimeout}).Do(q)
	if err != nil {
		return page, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return page, fmt.Errorf("list signals: status %d", answer.StatusCode)
	}
	return page, json.NewDecoder(answer.Body).Decode(&page)
}

// newest returns the IDs of the newest signals of a status that the service has, by one of
// their times and then by their ID, which is the order of the console.
func (l *consoleLoad) newest(
	ctx context.Context, status string, n int, by func(listedSignal) string,
) ([]string, error) {
	// The API lists by creation, and the console by other times too: so all closed ones are
	// read, and more open ones than are asked for, as some share a millisecond.
	const spare = 10 * consoleListed
	var all []listedSignal
	for more := true; more && (status == "closed" || len(all) < n+spare); {
		page, err := l.list(ctx, status, consoleListed, len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, page.Signals...)
		more = len(page.Signals) > 0 && len(all) < page.Total
	}
	slices.SortFunc(all, func(a, b listedSignal) int { return cmp.Or(cmp.Compare(by(b), by(a)), cmp.Compare(b.ID, a.ID)) })
	ids := make([]string, min(n, len(all)))
	for i := range ids {
		ids[i] = all[i].ID
	}
	return ids, nil
}
