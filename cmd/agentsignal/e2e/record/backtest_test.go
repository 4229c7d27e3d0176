package record

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	redisclient "github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/backtest"
	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// wander returns n bars of 1h of a random walk that ended at a time.
func wander(seed uint64, n int, end time.Time) []marketdata.Bar {
	r := rand.New(rand.NewPCG(seed, 3))
	cents := func(x float64) float64 { return math.Round(x*100) / 100 }
	const step = 3_600_000
	price := 100.0
	bars := make([]marketdata.Bar, n)
	for i := range bars {
		open := end.UnixMilli() - int64(n-i)*step
		b := marketdata.Bar{OpenTime: open, CloseTime: open + step, Open: cents(price), Volume: 5 + float64(r.IntN(9))}
		b.High, b.Low = b.Open, b.Open
		for range 5 {
			price *= math.Exp(.003 * r.NormFloat64())
			b.High, b.Low = max(b.High, cents(price)), min(b.Low, cents(price))
		}
		b.Close = cents(price)
		bars[i] = b
	}
	return bars
}

// madeSignal is a signal as clients see it.
type madeSignal struct {
	ID         string           `json:"signal_id"`
	Asset      string           `json:"asset"`
	Strategy   string           `json:"strategy"`
	Direction  signal.Direction `json:"direction"`
	Confidence float64          `json:"confidence"`
	Entry      float64          `json:"entry_price"`
	Stop       float64          `json:"stop_loss"`
	Target     float64          `json:"take_profit"`
	Metadata   json.RawMessage  `json:"metadata"`
	CreatedAt  time.Time        `json:"created_at"`
	ExpiresAt  time.Time        `json:"expires_at"`
}

// TestLiveSignalsAreThoseOfTheBacktest runs every strategy that reads only bars at two
// closes of a source without ticks. The stored signals equal those of the backtest at these
// bars except for identifiers and times; the commands that read the stored bars agree, and
// the audit finds nothing. Then the signals close, and the scorecard counts them.
func TestLiveSignalsAreThoseOfTheBacktest(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := e2e.Start(t, e2e.TestConfig(t, redis.URL()))
	prices := e2e.NewMarket(t, redis.Client())
	trader, account := s.Account(t)
	bars := wander(1, 1200, time.Now().Truncate(time.Hour))
	origin := strategy.Origin{Asset: "walk", Source: "stream", Compression: 1, Cost: .001}

	prices.Give("WALK", signal.H1, bars[:len(bars)-1]...)
	made := 0
	// rows are the rows that the commands must print, by strategy and risk.
	rows := map[[2]string]string{}
	for _, last := range []int{len(bars) - 2, len(bars) - 1} { // older bars are stale
		if last == len(bars)-1 {
			prices.Give("WALK", signal.H1, bars[last])
		}
		e2e.Eventually(t, fmt.Sprintf("bar %d is seen", last), func() bool {
			seen, err := s.Market().Series(t.Context(), "WALK", signal.H1)
			origin.Tick = seen.Asset.TickSize
			return err == nil && !seen.Ticks && seen.Bars[len(seen.Bars)-1] == bars[last]
		})
		for _, name := range []string{strategy.Momentum, strategy.MeanReversion, strategy.Breakout} {
			for _, risk := range signal.RiskLevels {
				replayed, err := backtest.Run(t.Context(), bars,
					backtest.Options{Origin: origin, Strategy: name, Timeframe: signal.H1, Risk: risk,
						From: bars[last].CloseTime, To: bars[last].CloseTime, Slippage: backtest.DefaultSlippage, Metadata: true})
				e2e.Must(t, err)
				want, ok := replayed.At(last)
				if !ok {
					t.Fatalf("the backtest has no signal of %s at bar %d", name, last)
				}
				run := trader.TryRun("walk", name, `"timeframe":"1h"`, fmt.Sprintf(`"risk_level":%q`, risk)).Ok(t)
				got := e2e.Decode[madeSignal](t, trader.Get("/v1/signals/"+e2e.Decode[madeSignal](t, run.Body).ID).Ok(t).Body)
				same := strategy.Evaluation{Direction: got.Direction, Confidence: got.Confidence,
					Levels:   signal.Levels{Entry: got.Entry, Stop: got.Stop, Target: got.Target},
					Metadata: got.Metadata, Lifetime: got.ExpiresAt.Sub(got.CreatedAt)}
				if d := cmp.Diff(want.Evaluation, same); d != "" || got.Asset != "walk" || got.Strategy != name {
					t.Errorf("%s %s at bar %d (-backtest +live):\n%s", name, risk, last, d)
				}
				made++
				rows[[2]string{name, string(risk)}] = fmt.Sprintf("%s %s %.4f %v %v %v open",
					time.UnixMilli(bars[last].CloseTime).UTC().Format("2006-01-02 15:04:05"),
					got.Direction, got.Confidence, got.Entry, got.Stop, got.Target)
			}
		}
	}

	operator := e2e.StoreOperator(t, redis.URL(), "")
	file := e2e.Written(t, csvOf(bars))
	end := time.UnixMilli(bars[len(bars)-1].CloseTime).UTC().Format(time.RFC3339)
	for manner, row := range rows {
		args := []string{"backtest", "--asset", "walk", "--strategy", manner[0], "--risk", manner[1],
			"--from", end, "--to", end, "--trades"}
		for what, out := range map[string]string{"stored": operator.Do(args...),
			"csv": operator.Do(append(args, "--csv", file, "--class", "crypto", "--tick", fmt.Sprint(origin.Tick))...)} {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), row) {
				t.Errorf("%s over %s bars: the command prints %s, want %s", manner, what, out, row)
			}
		}
	}
	want, err := backtest.Run(t.Context(), bars,
		backtest.Options{Origin: origin, Strategy: strategy.Momentum, Timeframe: signal.H1, Risk: signal.MediumRisk,
			Slippage: backtest.DefaultSlippage})
	e2e.Must(t, err)
	if want.Statistics.Count < 20 {
		t.Fatalf("the backtest has only %d signals", want.Statistics.Count)
	}
	wanted := e2e.JsonOf(t, want)
	if got := operator.Do("backtest", "--asset", "walk", "--strategy", "momentum", "--json"); !e2e.Same(got, wanted) {
		t.Errorf("the command prints %s, want %s", got, wanted)
	}
	job := e2e.Decode[map[string]json.RawMessage](t,
		trader.Post("/v1/backtests", `{"agent_id":"trading","asset":"walk","strategy":"momentum"}`).Ok(t).
			Body)
	id := strings.Trim(string(job["job_id"]), `"`)
	trader.AwaitJob(id)
	ended := e2e.Decode[map[string]json.RawMessage](t, trader.Get("/v1/jobs/"+id).Ok(t).Body)
	if string(ended["status"]) != `"completed"` || !e2e.Same(string(ended["result"]), wanted) {
		t.Errorf("the job ended as %s, want %s", ended, wanted)
	}
	if out := operator.Do("audit"); !strings.Contains(out,
		fmt.Sprintf("%d signals, %d of them recomputed, 0 differ", made, made)) {
		t.Errorf("the audit reports %s", out)
	}

	// The price rises past all levels: long signals win.
	for range 3 {
		prices.Tick("WALK", "190.5")
	}
	var card scorecard.Card
	e2e.Eventually(t, "all signals are closed and counted", func() bool {
		card = e2e.Decode[scorecard.Card](t, trader.Get("/v1/scorecard?asset=WALK").Ok(t).Body)
		return card.Statistics.Count == made
	})
	wins, groups := 0, 0
	for _, g := range card.Groups {
		groups += g.Statistics.Count
	}
	for _, l := range trader.AllSignals() {
		if l.Direction == "long" {
			wins++
		}
	}
	if c := card.Statistics; c.Wins != wins || groups != made || c.Reasons.TakeProfit != wins ||
		c.Reasons.StopLoss != made-wins {
		t.Errorf("the scorecard has %+v in %d groups of %d signals, %d of them long", c, len(card.Groups), groups, wins)
	}
	if out := operator.Do("audit", "--account", string(account.ID)); !strings.Contains(out,
		fmt.Sprintf("%d signals, %d of them recomputed, 0 differ", made, made)) {
		t.Errorf("the audit of closed signals reports %s", out)
	}
	operator.Fails(`there is no account "acc_nobody"`, "audit", "--account", "acc_nobody")
	// Other bars than those that the signals were made of.
	for i := range bars {
		bars[i].Close = (bars[i].High + bars[i].Low) / 2
	}
	prices.Give("WALK", signal.H1, bars[len(bars)-200:]...)
	e2e.Eventually(t, "the audit finds what differs", func() bool {
		out, err := operator.Try("", "audit")
		return err != nil && strings.Contains(out, "confidence is ") &&
			strings.Contains(out, fmt.Sprintf("%d differ", made))
	})
}

// TestLiveSignalsShareOutcomes is TestLiveSignalsAreThoseOfTheBacktest with stored outcomes of
// another asset, which were known before, and of a third one, which were not.
func TestLiveSignalsShareOutcomes(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	bars := wander(1, 1200, time.Now().Truncate(time.Hour))
	last := len(bars) - 1
	pool := storeOutcomes(t, redis.Client(), bars)
	config := e2e.TestConfig(t, redis.URL())
	config.Market.Source = "stream"
	s := e2e.Start(t, config)
	prices := e2e.NewMarket(t, redis.Client())
	trader, _ := s.Account(t)
	origin := strategy.Origin{Asset: "walk", Source: "stream", Compression: 1, Cost: .001}
	prices.Give("WALK", signal.H1, bars...)
	e2e.Eventually(t, "the bars are seen", func() bool {
		seen, err := s.Market().Series(t.Context(), "WALK", signal.H1)
		origin.Tick = seen.Asset.TickSize
		return err == nil && seen.Bars[len(seen.Bars)-1] == bars[last]
	})
	made := 0
	for _, name := range []string{strategy.Momentum, strategy.MeanReversion, strategy.Breakout} {
		for _, risk := range signal.RiskLevels {
			o := backtest.Options{Origin: origin, Strategy: name, Timeframe: signal.H1, Risk: risk,
				From: bars[last].CloseTime, To: bars[last].CloseTime, Metadata: true}
			alone, err := backtest.Run(t.Context(), bars, o)
			if err != nil {
				t.Fatal(err)
			}
			o.PoolKey = "stream*1/WALK"
			o.Pool = pool.Replayed(o.PoolKey, bars)
			replayed, err := backtest.Run(t.Context(), bars, o)
			if err != nil {
				t.Fatal(err)
			}
			run := trader.Post("/v1/agents/trading/run",
				e2e.RunBody("walk", name, `"timeframe":"1h"`, fmt.Sprintf(`"risk_level":%q`, risk))).Ok(t)
			got := e2e.Decode[madeSignal](t, trader.Get("/v1/signals/"+e2e.Decode[madeSignal](t, run.Body).ID).Ok(t).Body)
			same := strategy.Evaluation{Direction: got.Direction, Confidence: got.Confidence,
				Levels:   signal.Levels{Entry: got.Entry, Stop: got.Stop, Target: got.Target},
				Metadata: got.Metadata, Lifetime: got.ExpiresAt.Sub(got.CreatedAt)}
			want, _ := replayed.At(last)
			if d := cmp.Diff(want.Evaluation, same); d != "" {
				t.Errorf("%s %s (-backtest +live):\n%s", name, risk, d)
			}
			if x, _ := alone.At(last); cmp.Equal(x.Evaluation, same) {
				t.Errorf("%s %s: outcomes of other assets do not count", name, risk)
			}
			made++
		}
	}
	if out := e2e.StoreOperator(t, redis.URL(), "").Do("audit"); !strings.Contains(out,
		fmt.Sprintf("%d signals, %d of them recomputed, 0 differ", made, made)) {
		t.Errorf("the audit reports %s", out)
	}
	e2e.Eventually(t, "the outcomes of the asset are stored", func() bool {
		return redis.Client().HGet(t.Context(), e2e.NewKeys.MarketOutcomeBarsKey(signal.H1), "stream*1/WALK").Val() ==
			strconv.FormatInt(bars[last-1-strategy.Horizon(signal.H1, signal.HighRisk)].OpenTime, 10)
	})
}

// storeOutcomes stores outcomes of an asset, each known from the close of its bar, and of another
// that are known from now on. It returns a pool of the former.
func storeOutcomes(t *testing.T, rdb *redisclient.Client, bars []marketdata.Bar) *strategy.Pool {
	t.Helper()
	pool := strategy.NewPool(0)
	for i, b := range bars[:1000] {
		o := marketdata.Outcome{Bar: b.OpenTime, Ended: b.CloseTime, At: b.CloseTime}
		for s := range o.Bins {
			o.Bins[s] = uint8((i + s) % 64)
		}
		for d := range o.R {
			o.R[d] = [3]int8{int8(30 - 50*(i*7%3%2)), 30, -20}
		}
		pool.Add("OTHER", o)
		rdb.XAdd(t.Context(), &redisclient.XAddArgs{Stream: e2e.NewKeys.MarketOutcomesKey(signal.H1),
			ID: fmt.Sprintf("%d-0", b.CloseTime), Values: []any{"a", "OTHER", "o", packed(&o)}})
		if o.R = [2][3]int8{}; i == 999 { // a third asset loses always
			for _, b := range bars[:900] {
				o.Bar, o.Ended = b.OpenTime, b.CloseTime
				rdb.XAdd(t.Context(), &redisclient.XAddArgs{Stream: e2e.NewKeys.MarketOutcomesKey(signal.H1),
					Values: []any{"a", "LATE", "o", packed(&o)}})
			}
		}
	}
	return pool
}

// packed returns an outcome as package outcomes stores it.
func packed(o *marketdata.Outcome) []byte {
	b := binary.AppendUvarint([]byte{2}, uint64(o.Bar))
	b = binary.AppendUvarint(b, uint64(o.Ended-o.Bar))
	var held uint64
	for _, bin := range o.Bins {
		held = held<<6 | uint64(bin)
	}
	for _, r := range append(o.R[0][:], o.R[1][:]...) {
		held = held<<7 | uint64(r+60)
	}
	b = binary.LittleEndian.AppendUint64(b, held)
	return b
}

func TestScansRankManyAssets(t *testing.T) {
	t.Parallel()
	config := e2e.TestConfig(t, redistest.New(t).URL())
	config.Market.Source = "simulated,stream" // so that an asset may have no price
	s := e2e.Start(t, config)
	trader, _ := s.Account(t)
	for _, asset := range []string{"BTC", "ETH", "EURUSD"} {
		s.AwaitPrices(t, asset, signal.H1)
	}
	type scan struct {
		Kind, Status string
		Result       struct {
			Ranked []struct {
				Asset    string
				Expected float64 `json:"expected_r_net"`
				Strength float64
				Entry    float64 `json:"entry_price"`
			}
			Errors []struct {
				Asset string
				Code  string `json:"error_code"`
			}
		}
	}
	var ended scan
	e2e.Eventually(t, "a scan finds no old prices", func() bool { // as a busy machine may have them
		a := trader.Post("/v1/agents/trading/scan", `{"assets":["BTC","eth","NOSUCH","EURUSD"],"strategy":"breakout"}`).
			Ok(t)
		id := e2e.Decode[e2e.WireJob](t, a.Body).ID
		trader.AwaitJob(id)
		ended = e2e.Decode[scan](t, trader.Get("/v1/jobs/"+id).Ok(t).Body)
		return len(ended.Result.Ranked) == 3
	})
	r := ended.Result
	if ended.Kind != "scan" || ended.Status != "completed" || len(r.Errors) != 1 || r.Errors[0].Asset != "NOSUCH" ||
		r.Errors[0].Code != "DATA_UNAVAILABLE" ||
		r.Ranked[0].Expected < r.Ranked[1].Expected || r.Ranked[1].Expected < r.Ranked[2].Expected ||
		r.Ranked[0].Entry <= 0 {
		t.Errorf("the scan ended as %+v", ended)
	}
	trader.Lists("", 0)
}

func TestBacktestsOfFiles(t *testing.T) {
	t.Parallel()
	bars := wander(2, 900, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	text := csvOf(bars)
	file := e2e.Written(t, text)
	o := e2e.Operator(t)
	want, err := backtest.Run(t.Context(), bars,
		backtest.Options{Origin: strategy.Origin{Asset: "BTC", Tick: .01, Source: "csv", Compression: 1, Cost: .00025},
			Strategy: strategy.Breakout, Timeframe: signal.H1, Risk: signal.LowRisk,
			From: bars[500].CloseTime, Slippage: .25})
	e2e.Must(t, err)
	args := []string{"backtest", "--asset", "BTC", "--strategy", "breakout", "--risk", "low", "--cost", "2.5", "--tick",
		"0.01", "--slippage", "0.25", "--from",
		time.UnixMilli(bars[500].CloseTime).UTC().Format(time.RFC3339)}
	wanted := e2e.JsonOf(t, want)
	wanted = wanted[:strings.LastIndexByte(wanted, '}')] + `,"file":`
	got := o.Do(append(args, "--csv", file, "--json")...)
	if i := strings.Index(got, `"file":`); i < 0 || !e2e.Same(got[:i]+`"file":0}`, wanted+"0}") {
		t.Errorf("got %s, want %s", got, wanted)
	}
	if !strings.Contains(got, `"bars": 900`) || !strings.Contains(got, `"always_open": true`) {
		t.Errorf("the file is not described: %s", got)
	}
	out, err := o.Try(text, append(args, "--csv", "-", "--trades")...)
	if err != nil || !strings.Contains(out, strconv.Itoa(want.Statistics.Count)+" (") ||
		strings.Count(out, "stop_loss") < 2 || !strings.Contains(out, "bars: 900 of 1h from 900 rows") || !strings.Contains(out, "cost 2.5 basis points a side, slippage 0.25 R") {
		t.Errorf("the table is %s (%v)", out, err)
	}
	if help, err := o.Try("", "backtest", "--help"); err != nil || strings.Contains(help, "NaN") {
		t.Errorf("the help shows what no user types: %s (%v)", help, err)
	}
	o.Fails("line 902: close \"x\" is not a number", "backtest", "--asset", "BTC", "--strategy", "momentum", "--csv",
		e2e.Written(t, text+"2026-11-02,1,1,1,x,1\n"))
	split := wander(2, 900, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	for i := 600; i < len(split); i++ {
		b := &split[i]
		b.Open, b.High, b.Low, b.Close = 2*b.Open, 2*b.High, 2*b.Low, 2*b.Close
	}
	jumping := []string{"backtest", "--asset", "BTC", "--strategy", "momentum", "--csv", e2e.Written(t, csvOf(split))}
	o.Fails(time.UnixMilli(split[600].OpenTime).UTC().Format(time.RFC3339)+" opens ", jumping...)
	o.Fails("a split? adjust the prices, or --allow-jumps", jumping...)
	o.Do(append(jumping, "--allow-jumps")...)
	o.Fails("--slippage: must be 0 to 1 R", append(jumping, "--slippage", "2")...)
	o.Fails("no such file", "backtest", "--asset", "BTC", "--strategy", "momentum", "--csv", file+"x")
	o.Fails("only 299 closed bars", "backtest", "--asset", "BTC", "--strategy", "momentum", "--csv",
		e2e.Written(t, strings.Join(strings.Split(text, "\n")[:300], "\n")))
	o.Fails("--risk: must be low, medium or high", "backtest", "--asset", "BTC", "--strategy", "luck",
		"--timeframe", "2h", "--risk", "none", "--from", "soon")
	gap := strings.Split(text, "\n")
	out = o.Do("backtest", "--asset", "BTC", "--strategy", "momentum",
		"--csv", e2e.Written(t, strings.Join(append(gap[:400:400], gap[404:]...), "\n")))
	if !strings.Contains(out, "gap: no bars for 4h from ") || !strings.Contains(out, "after which history begins again") {
		t.Errorf("an outage is not named: %s", out)
	}
}

// csvOf returns a file of bars.
func csvOf(bars []marketdata.Bar) string {
	var text strings.Builder
	text.WriteString("time,open,high,low,close,volume\n")
	for _, b := range bars {
		fmt.Fprintf(&text, "%d,%v,%v,%v,%v,%v\n", b.OpenTime, b.Open, b.High, b.Low, b.Close, b.Volume)
	}
	return text.String()
}
