package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence/redistest"
)

// wireView is a view as requests have it. A member without a list has everything.
type wireView struct {
	Agents     []string `json:"agents,omitzero"`
	Assets     []string `json:"assets,omitzero"`
	Strategies []string `json:"strategies,omitzero"`
}

func (v wireView) hasStrategy(agent, strategy string) bool {
	return (v.Agents == nil || slices.Contains(v.Agents, agent)) &&
		(v.Strategies == nil || slices.Contains(v.Strategies, strategy))
}

func (v wireView) hasAsset(asset string) bool {
	return v.Assets == nil || slices.Contains(v.Assets, asset)
}

// caller is a kind of credential.
type caller struct {
	*e2e.Client
	name   string
	who    string    // as refusalOf takes it, or the code by which the credential is refused
	view   *wireView // of a reader
	whole  *e2e.Client
	hidden []string // that no answer may contain
}

// seen is what answers show of a signal to the whole account.
type seen struct {
	e2e.WireState
	weather                                    string // the id of its weather signal
	listed, full, one, history, proof, outlook string
}

// world is an account with signals of all kinds, and who reads them.
type world struct {
	*testing.T
	s       *e2e.Service
	hers    belongings
	unknown belongings
	account signal.AccountID
	callers []*caller
	signals []*seen // the newest first
	agents  []map[string]any
	size    int64 // of a checkpoint that has all of them
}

func newWorld(t *testing.T) *world {
	redis := redistest.New(t)
	c := e2e.HookConfig(t, redis.URL())
	c.Auth.Registration, c.Record.Every = "open", configs.Duration(time.Second)
	w := &world{T: t, s: e2e.Start(t, c), unknown: unknownBelongings()}
	prices := e2e.NewMarket(t, redis.Client())
	for _, asset := range []string{"BTC", "ETH", "wheat"} { // without trades: nothing changes the signals
		prices.Hours(asset, 400)
		prices.Days(asset, 400)
		w.s.AwaitPrices(t, asset, signal.H1)
		w.s.AwaitPrices(t, asset, signal.D1)
	}
	ada, tokens, _ := w.s.User(t)
	other, _, _ := w.s.User(t)
	w.account = accountOf(t, w.s, tokens)
	w.hers = owns(t, ada)
	ada.AwaitJob(w.hers["job"])
	for _, body := range []string{
		`{"id":"zebra_agent","name":"Zebra","category":"trading","strategies":["zebra_up","zebra_down"],
			"endpoint":{"url":"https://127.0.0.1:9443/zebra"},"defaults":{"timeframe":"1m"}}`,
		`{"id":"quartz_texts","name":"Quartz","category":"content","strategies":["quartz_notes"]}`,
		`{"id":"former_agent","name":"Former","category":"trading","strategies":["former_way"]}`,
	} {
		ada.Post("/v1/agents", body).Want(t, http.StatusCreated)
	}
	ada.Post("/v1/agents/seo/run", `{"asset":"obsidian lamp","strategy":"blog_post"}`).Ok(t)
	for i, of := range []string{"trading momentum", "trading breakout", "hers hers", "zebra_agent zebra_up",
		"zebra_agent zebra_down", "former_agent former_way", "quartz_texts quartz_notes"} {
		for k, asset := range []string{"BTC", "ETH", "BTC", "ETH"} {
			w.store(of, asset, k > 1, 1+i+k)
		}
	}
	ada.Do(http.MethodDelete, "/v1/agents/former_agent", "").Want(t, http.StatusNoContent)
	w.read(ada)
	w.addCallers(ada, other)
	return w
}

// store records a signal of an agent and a strategy, and perhaps its closing.
func (w *world) store(of, asset string, closed bool, minutes int) {
	w.Helper()
	agent, name, _ := strings.Cut(of, " ")
	text := agent == "quartz_texts"
	if text {
		asset = "opal " + asset
	}
	id := w.s.OwnSignal(w, w.account, func(x *signal.Signal) {
		x.Agent, x.Strategy, x.Asset = signal.AgentID(agent), name, asset
		x.FirstConfidence, x.CreatedAt = x.Confidence, time.Now().Add(-time.Duration(minutes)*time.Second)
		x.ExpiresAt = x.CreatedAt.Add(240 * time.Hour)
		if text {
			x.Levels = nil
			x.Metadata = []byte(`{"indicators":["submitted"],"reasoning":"r","content":"opal","measure":"claimed"}`)
		} else if agent != "trading" {
			x.Reach = &signal.Reach{}
		}
	})
	if !closed {
		return
	}
	w.s.Change(w.T, w.account, id, signal.SignalClosed, `{}`, func(x *signal.Signal) {
		closing := signal.Closing{At: x.CreatedAt.Add(time.Duration(minutes) * time.Millisecond), Reason: signal.AgentExit}
		if !text {
			exit := []float64{115, 90, 104}[minutes%3]
			closing.Reason = []signal.CloseReason{signal.TakeProfit, signal.StopLoss, signal.Expired}[minutes%3]
			percent, absolute := exit-100, exit-100
			closing.ExitPrice, closing.PnLPercent, closing.PnLAbsolute = &exit, &percent, &absolute
			x.MFE, x.MAE = 1, -.5
		}
		x.Closing = &closing
	})
}

// read reads everything by the whole account, once the record has it.
func (w *world) read(ada *e2e.Client) {
	w.Helper()
	list := func(query string) []json.RawMessage {
		return e2e.Decode[struct{ Signals []json.RawMessage }](w, ada.Get("/v1/signals?"+query).Ok(w).Body).Signals
	}
	for _, x := range list("limit=100&view=full") {
		w.signals = append(w.signals, &seen{WireState: e2e.Decode[e2e.WireState](w, string(x)), full: string(x)})
	}
	for _, x := range w.signals {
		e2e.Eventually(w, "the record has "+x.ID, func() bool {
			return (ada.Proof(x.ID).Closed != nil) == (x.Status == "closed")
		})
	}
	e2e.Eventually(w, "all leaves are counted", func() bool {
		card := e2e.Decode[struct {
			Recorded   int
			Statistics struct{ Count int }
		}](w, ada.Get("/v1/scorecard").Ok(w).Body)
		return card.Recorded == card.Statistics.Count && card.Recorded > 0
	})
	w.size = ada.Checkpoint().Root.N
	plain := list("limit=100")
	if len(plain) != len(w.signals) || len(plain) > 90 {
		w.Fatalf("%d signals, %d of them whole", len(plain), len(w.signals))
	}
	for i, x := range w.signals {
		path := "/v1/signals/" + x.ID
		x.listed, x.one, x.history = string(plain[i]), ada.Get(path).Ok(w).Body, ada.Get(path+"/history").Ok(w).Body
		x.proof = ada.Get(fmt.Sprintf("%s/proof?log_size=%d", path, w.size)).Ok(w).Body
		if x.Agent == "weather" {
			x.weather = strings.Replace(x.ID, "sig_", "wsig_", 1)
			x.outlook = ada.Get("/v1/signals/weather/" + x.weather).Ok(w).Body
		}
	}
	w.agents = e2e.Decode[struct{ Agents []map[string]any }](w, ada.Get("/v1/agents?limit=100").Ok(w).Body).Agents
}

// addCallers makes the credentials.
func (w *world) addCallers(ada, other *e2e.Client) {
	w.Helper()
	add := func(c *caller) { w.callers = append(w.callers, c) }
	add(&caller{Client: ada.With(ada.Key("whole", "").Secret), name: "key", who: "key", whole: ada})
	add(&caller{Client: ada, name: "JWT", who: forSessions, whole: ada})
	reader := func(owner *e2e.Client, name, more string, v wireView) wireReader {
		body := fmt.Sprintf(`{"name":%q,"view":%s%s}`, name, e2e.JsonOf(w, v), more)
		return e2e.Decode[wireReader](w, owner.Post("/v1/auth/api-key", body).Want(w, http.StatusCreated).Body)
	}
	for _, x := range []struct {
		name string
		view wireView
	}{
		{"all", wireView{}},
		{"agent", wireView{Agents: []string{"zebra_agent"}}},
		{"asset", wireView{Assets: []string{"BTC", "obsidian lamp"}}},
		{"strategy", wireView{Strategies: []string{"agriculture", "former_way", "momentum"}}},
		{"some", wireView{Agents: []string{"trading", "zebra_agent"}, Assets: []string{"ETH"},
			Strategies: []string{"momentum", "zebra_up"}}},
		{"none", wireView{Agents: []string{}, Assets: []string{}, Strategies: []string{}}},
		{"no asset", wireView{Assets: []string{}}},
	} {
		c := &caller{Client: ada.With(reader(ada, x.name, "", x.view).Secret), name: x.name, who: "reader", view: &x.view,
			whole: ada}
		c.hidden = w.hiddenFrom(c)
		add(c)
	}
	for _, scope := range []string{"agents:read", "signals:read"} {
		c := &caller{Client: ada.With(reader(ada, scope, `,"scopes":["`+scope+`"]`, wireView{}).Secret), name: scope, who: scope,
			view: &wireView{}, whole: ada}
		c.hidden = w.hiddenFrom(c)
		add(c)
	}
	expired := ada.With(reader(ada, "expired", `,"expires_in":1`, wireView{}).Secret)
	revoked := reader(ada, "revoked", "", wireView{})
	ada.Do(http.MethodDelete, "/v1/auth/api-keys/"+revoked.ID, "").Want(w, http.StatusNoContent)
	add(&caller{Client: expired, name: "expired", who: "unknown key", view: &wireView{}})
	add(&caller{Client: ada.With(revoked.Secret), name: "revoked", who: "unknown key", view: &wireView{}})
	expired.Await("/v1/versions", http.StatusUnauthorized)
	foreign := &caller{Client: other.With(reader(other, "foreign", "", wireView{}).Secret), name: "other's", who: "reader",
		view: &wireView{}, whole: other}
	foreign.hidden = w.hiddenFrom(foreign)
	add(foreign)
}

// has reports whether a caller sees a signal of the account.
func (w *world) has(c *caller, agent, asset, strategy string) bool {
	return c.name != "other's" && (c.view == nil || c.view.hasStrategy(agent, strategy) && c.view.hasAsset(asset))
}

func (w *world) hasStrategy(c *caller, agent, strategy string) bool {
	return (c.name != "other's" || slices.Contains(signal.AgentIDs(), signal.AgentID(agent))) &&
		(c.view == nil || c.view.hasStrategy(agent, strategy))
}

// visible returns what a caller sees of the account's signals.
func (w *world) visible(c *caller) (list []*seen) {
	for _, x := range w.signals {
		if w.has(c, x.Agent, x.Asset, x.Strategy) {
			list = append(list, x)
		}
	}
	return list
}

// hiddenFrom returns the texts that no answer to a reader may contain: the names and ids of what it does not see.
func (w *world) hiddenFrom(c *caller) []string {
	hidden := []string{"127.0.0.1:9443"}
	shown := map[string]bool{}
	for _, x := range w.signals {
		in := w.has(c, x.Agent, x.Asset, x.Strategy)
		if !in {
			hidden = append(hidden, strings.TrimPrefix(x.ID, "sig_"))
		}
		for name, has := range map[string]bool{
			x.Asset: c.name != "other's" && c.view.hasAsset(x.Asset), x.Strategy: w.hasStrategy(c, x.Agent, x.Strategy),
			x.Agent: w.hasStrategy(c, x.Agent, x.Strategy),
		} {
			shown[name] = shown[name] || has
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		// The names of the service stand in the descriptions of tools, and hers in other words.
		if unusual := strings.ContainsAny(name, "_ ") && !slices.Contains(signal.Strategies(), name); unusual && !shown[name] {
			hidden = append(hidden, name)
		}
	}
	for kind, id := range w.hers {
		if kind != "signal" && kind != "weather" && kind != "agent" {
			hidden = append(hidden, id)
		}
	}
	return hidden
}
