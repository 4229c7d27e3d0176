package record

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/scorecard"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/strategy"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

const ownAgent = `{"id":"my_agent","name":"My agent","category":"trading","strategies":["winner","boaster","other"]}`

// skilled is what a signal of an account's agent shows of the skill of its strategy.
type skilled struct {
	Confidence float64
	Metadata   struct {
		Base      float64    `json:"base_probability"`
		Skill     float64    `json:"skill"`
		Interval  [2]float64 `json:"skill_interval"`
		Sample    int        `json:"skill_sample"`
		Reasoning string     `json:"reasoning"`
	}
}

// owner makes an account with an agent of its own.
func owner(t *testing.T, s *e2e.Service) *e2e.Client {
	t.Helper()
	c, _, _ := s.User(t)
	if a := c.Post("/v1/agents", ownAgent); a.Status != 201 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	return c
}

// submitted submits a signal at a new trade at 100 and returns what it shows.
func submitted(t *testing.T, prices e2e.Pricer, c *e2e.Client, name, more string) skilled {
	t.Helper()
	prices.Tick("ACME", "100")
	made := e2e.Decode[e2e.WireSignal](t, c.Post("/v1/agents/my_agent/signals", fmt.Sprintf(
		`{"asset":"ACME","strategy":%q,"stop":{"percent":2},"target":{"percent":2},%s}`, name, more)).Ok(t).Body)
	return e2e.Decode[skilled](t, c.Get("/v1/signals/"+made.ID).Ok(t).Body)
}

// TestClosedSignalsShowASkill: signals of an account's agent are submitted on one node and close by trades. On each node
// the next ones then get a confidence that says how the ones before did, and what they claim does not matter.
func TestClosedSignalsShowASkill(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	node := func() *e2e.Service {
		c := e2e.TestConfig(t, redis.URL())
		c.Cluster = true
		c.Auth.JWTKeys, c.Security.EncryptionKeys = configs.Secret(e2e.SharedKeys), configs.Secret(e2e.SharedKeys)
		c.Security.RecordKeys = configs.Secret(e2e.SharedRecordKey(t))
		return e2e.Start(t, c)
	}
	s, follower := node(), node()
	prices := e2e.NewMarket(t, redis.Client())
	trade := func(price float64) {
		prices.Tick("ACME", e2e.Decimal(price))
		s.AwaitTrade(t, "ACME", price)
		follower.AwaitTrade(t, "ACME", price)
	}
	prices.Hours("ACME", 400)
	trade(100)
	trader := owner(t, s)
	following := trader.At(follower.URL)
	const n = 24
	for range n {
		x := submitted(t, prices, trader, "winner", `"direction":"long"`)
		if x.Confidence != x.Metadata.Base || x.Metadata.Sample != 0 || !strings.Contains(x.Metadata.Reasoning, "not yet known") {
			t.Fatalf("before any is closed: %+v", x)
		}
		submitted(t, prices, following, "boaster", `"direction":"short","confidence":0.9`)
	}
	trade(102.5) // the target of the longs, and the stop of the shorts
	e2e.Eventually(t, "all are closed", func() bool { return trader.Signals("status=closed").Total == 2*n })
	trade(100)

	for name, c := range map[string]*e2e.Client{"its node": trader, "another node": following} {
		var winner, boaster skilled
		e2e.Eventually(t, "closed signals count", func() bool {
			winner = submitted(t, prices, c, "winner", `"direction":"long"`)
			boaster = submitted(t, prices, c, "boaster", `"direction":"long","confidence":0.9`)
			return winner.Metadata.Sample == n && boaster.Metadata.Sample == n
		})
		other := submitted(t, prices, c, "other", `"direction":"long","confidence":0.9`)
		m := winner.Metadata
		if winner.Confidence < m.Base+.05 || m.Skill < .3 || m.Interval[0] > m.Skill || m.Interval[1] < m.Skill ||
			!strings.Contains(m.Reasoning, fmt.Sprintf("as measured on %d closed signals", n)) {
			t.Errorf("%s: the winner has %+v", name, winner)
		}
		told := 1 / (1 + math.Exp(-math.Log(m.Base/(1-m.Base))-m.Skill))
		if math.Abs(winner.Confidence-told) > 1e-4 {
			t.Errorf("%s: confidence %v, want %v", name, winner.Confidence, told)
		}
		if b := boaster.Metadata; boaster.Confidence > b.Base-.05 || b.Skill > -.3 {
			t.Errorf("%s: who claims 0.9 and loses has %+v", name, boaster)
		}
		if other.Confidence != other.Metadata.Base || other.Metadata.Sample != 0 {
			t.Errorf("%s: who claims 0.9 at first has %+v", name, other)
		}
	}
}

// TestLosersThatAreClosedAtOnceEarnNothing: 1,000 signals on prices without drift, each ended by its agent as soon as it has lost
// a quarter of its risk. The wins that are left say nothing, nor do its claims, and a stranger computes the same from the
// record.
func TestLosersThatAreClosedAtOnceEarnNothing(t *testing.T) {
	t.Parallel()
	redis := redistest.New(t)
	s := e2e.Start(t, e2e.SigningConfig(t, redis.URL()))
	trader := owner(t, s)
	account := e2e.Decode[struct {
		ID signal.AccountID `json:"account_id"`
	}](t, trader.Get("/v1/account").Ok(t).Body).ID
	levels := signal.Levels{Entry: 100, Stop: 98, Target: 102}
	const n, bars, steps = 1000, 24, 240
	base := math.Round(strategy.ReachOf(levels, 1, bars).Chance()*1e4) / 1e4
	metadata := fmt.Sprintf(`{"base_probability":%v,"atr":1,"horizon_bars":%d,"claimed_confidence":0.9}`, base, bars)
	r := rand.New(rand.NewPCG(5, 3))
	var all sync.WaitGroup
	wins, places := 0, make(chan struct{}, 8)
	for range n {
		price, reason, left := levels.Entry, signal.Expired, 0.0
		for i := range steps {
			price = math.Round((price+r.NormFloat64()/1.6*math.Sqrt(bars/float64(steps)))*1e4) / 1e4
			exit, ended := strategy.ExitOnTick(signal.Long, levels, price)
			switch {
			case ended:
				price, reason = exit.Price, exit.Reason
			case price < levels.Entry-0.5:
				reason, left, ended = signal.AgentExit, 1-float64(i+1)/steps, true
			}
			if ended {
				break
			}
		}
		if price > levels.Entry {
			wins++
		}
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			id := s.OwnSignal(t, account, func(made *signal.Signal) {
				made.Strategy, made.Levels, made.Metadata = "other", &levels, json.RawMessage(metadata)
				made.Reach = &signal.Reach{Stop: 2, Bars: bars}
			})
			s.Change(t, account, id, signal.SignalClosed, `{}`, func(s *signal.Signal) {
				closing := strategy.Close(s, strategy.Exit{Reason: reason, Price: price}, s.CreatedAt.Add(time.Millisecond))
				s.Closing = &closing
				if reason == signal.AgentExit {
					s.Metadata = json.RawMessage(fmt.Sprintf(`{"life_left":%v}`, left))
				}
			})
		})
	}
	all.Wait()
	prices := e2e.NewMarket(t, redis.Client())
	prices.Open("ACME", "100")
	s.AwaitTrade(t, "ACME", 100)
	x := submitted(t, prices, trader, "other", `"direction":"long","confidence":0.9`)
	if x.Metadata.Sample != n || math.Abs(x.Confidence-x.Metadata.Base) > .01 {
		t.Errorf("%d of %d closed in profit at a base of %v: %+v", wins, n, base, x)
	}

	w := &witness{TB: t, s: s, redis: redis, trader: trader, dir: t.TempDir(), id: account,
		log: s.Store().Client.Partition(account)}
	w.write("key", trader.Get("/v1/log/key").Ok(t).Body)
	w.await("newest.note", 2*n+1)
	w.export("record.jsonl", "--scorecard", w.path("scorecard.json"))
	card := e2e.Decode[scorecard.Card](t, w.read("scorecard.json"))
	if len(card.Strategies) != 1 {
		t.Fatalf("%d strategies", len(card.Strategies))
	}
	row := &card.Strategies[0]
	claims := row.Claimed.Ranges[9]
	if row.Count != n || row.Wins != wins || float64(row.Skill) != x.Metadata.Skill || row.SkillSample != n ||
		row.BreakEven > row.HitRate+.05 || row.BreakEven < row.HitRate-.05 || claims.Count != n ||
		math.Abs(float64(claims.Outcome)-base) > .02 || row.Claimed.Brier < row.Brier+.1 {
		t.Errorf("the scorecard has %s", e2e.JsonOf(t, row))
	}
	verify := func(file string) (string, error) {
		return w.verify("record", w.path("record.jsonl"), "--scorecard", w.path(file), "--allow-unwitnessed")
	}
	if out, err := verify("scorecard.json"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	row.Skill += .1
	w.write("better.json", e2e.JsonOf(t, card))
	if out, err := verify("better.json"); err == nil || !strings.Contains(out+err.Error(), "skill of my_agent other is") {
		t.Errorf("with a better skill: %v\n%s", err, out)
	}
}
