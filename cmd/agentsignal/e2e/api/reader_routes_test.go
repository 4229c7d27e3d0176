package api

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// readerRoutes has the routes that answer readers, and what compares the answers with what a view allows. It returns what the
// table shows. Every other route must refuse readers.
var readerRoutes = map[string]func(w *world, c *caller) string{
	"GET /v1/signals":                (*world).checkLists,
	"GET /v1/signals/export":         (*world).checkExports,
	"GET /v1/signals/{id}":           (*world).checkSignals,
	"GET /v1/signals/{id}/history":   (*world).checkHistories,
	"GET /v1/signals/{id}/proof":     (*world).checkProofs,
	"GET /v1/signals/weather":        (*world).checkWeather,
	"GET /v1/signals/weather/{id}":   (*world).checkOutlooks,
	"GET /v1/scorecard":              (*world).checkScorecard,
	"GET /v1/summary":                (*world).checkSummary,
	"GET /v1/agents":                 (*world).checkAgents,
	"GET /v1/agents/{id}":            (*world).checkAgent,
	"GET /v1/assets":                 (*world).checkAssets,
	"GET /v1/assets/{asset}/bars":    (*world).checkBars,
	"GET /v1/log/checkpoint":         (*world).checkCheckpoint,
	"GET /v1/log/key":                same("/v1/log/key"),
	"GET /v1/log/witness":            same("/v1/log/witness"),
	"GET /v1/log/consistency":        same("/v1/log/consistency?from=1&to=2"),
	"GET /v1/log/tiles/{log}/{path}": (*world).checkTiles,
	"GET /v1/versions":               same("/v1/versions"),
	"GET /ws/dashboard":              (*world).checkStream,
	"GET /v1/ws/dashboard":           (*world).checkStream,
	"GET /v1/sse/dashboard":          (*world).checkStream,
	"POST /mcp":                      (*world).checkTools,
}

// TestEveryRouteWithEveryReader tries every route with every kind of credential. What a reader gets is compared with what its
// view has of what the account gets; what it does not see, byte for byte with what does not exist.
func TestEveryRouteWithEveryReader(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes long")
	}
	w := newWorld(t)
	var table strings.Builder
	fmt.Fprintf(&table, "%-56s", "route")
	for _, c := range w.callers {
		fmt.Fprintf(&table, " %-12s", c.name)
	}
	routes := w.s.Server().Routes()
	slices.Sort(routes)
	for _, route := range routes {
		fmt.Fprintf(&table, "\n%-56s", route)
		for _, c := range w.callers {
			fmt.Fprintf(&table, " %-12s", w.try(route, c))
		}
	}
	t.Logf("What each credential gets. The readers see: agent %s; asset BTC and a subject; strategy three of several agents; "+
		"some two agents, ETH and two strategies; none and no asset nothing. A pair of statuses is of what the view has and of "+
		"what it does not have. Changes by key and JWT name nothing that exists. scope, reader and JWT: the code of the "+
		"refusal.\n%s", "zebra_agent", table.String())
	for route := range readerRoutes {
		if !slices.Contains(routes, route) {
			t.Errorf("there is no %s", route)
		}
	}
}

// try requests a route with a credential and returns what the table shows.
func (w *world) try(route string, c *caller) string {
	w.Helper()
	rule, ok := routeRules[route]
	if !ok {
		w.Errorf("%s has no rule", route)
	}
	check, seen := readerRoutes[route]
	want := refusalOf(rule.who, c.who)
	reader := c.view != nil && c.who != "unknown key"
	switch {
	case c.who == "key":
		want = refusalOf(rule.who, rule.who)
		if rule.who == forSessions {
			want = "jwt_required"
		}
	case c.who == "reader":
		want = refusalOf(rule.who, "signals:read")
		if rule.who == "agents:read" {
			want = ""
		}
	}
	if reader && want == "" && rule.who != forAnyone && !seen {
		want = "reader_key"
	}
	method, template, _ := strings.Cut(route, " ")
	things := w.hers
	if c.who == "key" || c.who == forSessions {
		things = w.unknown // it changes nothing that others need
		if method == http.MethodGet {
			things = w.hers
		}
	}
	path := things.path(template, rule.ids)
	a := c.Do(method, path, rule.body, "X-Request-Id: req-1")
	w.leaks(c, path, a)
	if code := codeOf(w.T, a); code != want && (want != "" || isRefusal(code) || code == "reader_key") {
		w.Errorf("%s by %s: %d %.300s, want %q", route, c.name, a.Status, a.Body, want)
	}
	switch short := map[string]string{"jwt_required": "401 JWT", "insufficient_scope": "403 scope", "reader_key": "403 reader"}; {
	case short[want] != "":
		return short[want]
	case want == "" && reader && seen:
		return check(w, c)
	}
	return fmt.Sprint(a.Status)
}

// leaks fails the test if an answer contains what its reader does not see.
func (w *world) leaks(c *caller, path string, a e2e.Answer) {
	w.Helper()
	if c.view == nil {
		return
	}
	body := strings.ReplaceAll(a.Body, path, "PATH")
	hidden := c.hidden
	if !strings.Contains(path, "/proof") {
		hidden = append(slices.Clip(hidden), string(w.account))
	}
	for _, text := range hidden {
		if strings.Contains(body, text) && !strings.Contains(path, text) {
			w.Errorf("%s by %s shows %q: %.600s", path, c.name, text, body)
		}
	}
}

// get requests a path by a reader.
func (w *world) get(c *caller, path string) e2e.Answer {
	w.Helper()
	a := c.Get(path, "X-Request-Id: req-1")
	w.leaks(c, path, a)
	return a
}

// same returns a check of what does not depend on the account.
func same(path string) func(w *world, c *caller) string {
	return func(w *world, c *caller) string {
		w.Helper()
		if d := cmp.Diff(c.whole.Get(path).Body, w.get(c, path).Ok(w).Body); d != "" {
			w.Errorf("%s by %s (-whole +reader):\n%s", path, c.name, d)
		}
		return "200"
	}
}

// checkCheckpoint waits for a moment without a new checkpoint.
func (w *world) checkCheckpoint(c *caller) string {
	w.Helper()
	const path = "/v1/log/checkpoint"
	e2e.Eventually(w, "the checkpoint of "+c.name+" is that of the account", func() bool {
		return w.get(c, path).Ok(w).Body == c.whole.Get(path).Ok(w).Body
	})
	return "200"
}

// checkStream opens a stream, as keys of every scope may: a channel is denied where the scope is missing. What readers get
// by it: TestReadersOnTheStream.
func (w *world) checkStream(c *caller) string {
	w.Helper()
	c.Dial()
	return "101"
}

func (w *world) checkTiles(c *caller) string {
	w.Helper()
	return same(fmt.Sprintf("/v1/log/tiles/%d/8%%2F0%%2F000.p%%2F9", w.s.Store().Signals.Partition(w.account)))(w, c)
}

// equal compares two answers or parts of them.
func (w *world) equal(c *caller, what string, want, got any) {
	w.Helper()
	if d := cmp.Diff(want, got); d != "" {
		w.Errorf("%s by %s (-want +got):\n%s", what, c.name, d)
	}
}

// checkOne compares what a path answers for each signal, and for what the reader does not see, what it answers for no signal.
func (w *world) checkOne(c *caller, form string, id, body func(*seen) string) string {
	w.Helper()
	in, out := "", ""
	for _, x := range w.signals {
		if id(x) == "" {
			continue
		}
		path := fmt.Sprintf(form, id(x))
		a := w.get(c, path)
		if w.has(c, x.Agent, x.Asset, x.Strategy) {
			in = fmt.Sprint(a.Status)
			w.equal(c, path, "200 "+body(x), fmt.Sprintf("%d %s", a.Status, a.Body))
			continue
		}
		out = fmt.Sprint(a.Status)
		none := w.unknown["signal"]
		if strings.HasPrefix(id(x), "wsig_") {
			none = w.unknown["weather"]
		}
		pathOf := func(path string) string { path, _, _ = strings.Cut(path, "?"); return path }
		unknown := w.get(c, fmt.Sprintf(form, none))
		if a.Status != http.StatusNotFound {
			w.Errorf("%s by %s: %d %s", path, c.name, a.Status, a.Body)
		}
		w.equal(c, path, withoutPath(unknown, pathOf(fmt.Sprintf(form, none))), withoutPath(a, pathOf(path)))
	}
	return strings.Trim(in+"/"+out, "/")
}

func idOf(x *seen) string { return x.ID }

func (w *world) checkSignals(c *caller) string {
	return w.checkOne(c, "/v1/signals/%s", idOf, func(x *seen) string { return x.one })
}

func (w *world) checkHistories(c *caller) string {
	return w.checkOne(c, "/v1/signals/%s/history", idOf, func(x *seen) string { return x.history })
}

func (w *world) checkProofs(c *caller) string {
	return w.checkOne(c, fmt.Sprintf("/v1/signals/%%s/proof?log_size=%d", w.size), idOf, func(x *seen) string { return x.proof })
}

func (w *world) checkOutlooks(c *caller) string {
	return w.checkOne(c, "/v1/signals/weather/%s", func(x *seen) string { return x.weather },
		func(x *seen) string { return x.outlook })
}

// names returns the values of a member of all signals, each once, and a name that no signal has.
func (w *world) names(of func(*seen) string) []string {
	list := []string{"", "nothing_such"}
	for _, x := range w.signals {
		if !slices.Contains(list, of(x)) {
			list = append(list, of(x))
		}
	}
	return list
}

// checkLists compares lists by every filter, both forms of them, and their pages.
func (w *world) checkLists(c *caller) string {
	w.Helper()
	read := func(query url.Values) e2e.Answer { return w.get(c, "/v1/signals?"+query.Encode()) }
	refused := map[string]e2e.Answer{}
	for _, name := range []string{"agent_id", "strategy"} {
		refused[name] = read(url.Values{name: {"nothing_such"}})
	}
	agents := w.names(func(x *seen) string { return x.Agent })
	strategies := w.names(func(x *seen) string { return x.Strategy })
	known := func(name, value string) bool { // as a filter of the caller
		return value == "" || slices.ContainsFunc(w.signals, func(x *seen) bool {
			return w.hasStrategy(c, x.Agent, x.Strategy) && (name == "agent_id" && x.Agent == value ||
				name == "strategy" && x.Strategy == value)
		}) || w.ofAgents(c, name, value)
	}
	for _, asset := range w.names(func(x *seen) string { return x.Asset }) {
		for _, agent := range agents {
			for _, strategy := range strategies {
				if asset != "" && agent != "" && strategy != "" {
					continue
				}
				query := url.Values{"limit": {"100"}}
				for name, value := range map[string]string{"asset": asset, "agent_id": agent, "strategy": strategy} {
					if value != "" {
						query.Set(name, value)
					}
				}
				a := read(query)
				if !known("agent_id", agent) || !known("strategy", strategy) {
					if a.Status != http.StatusBadRequest {
						w.Errorf("%v by %s: %d %s", query, c.name, a.Status, a.Body)
					}
					if name := map[bool]string{true: "agent_id", false: "strategy"}[agent != ""]; len(query) == 2 {
						w.equal(c, query.Encode(), withoutPath(refused[name], ""), withoutPath(a, ""))
					}
					continue
				}
				var want []string
				for _, x := range w.visible(c) {
					if (asset == "" || asset == x.Asset) && (agent == "" || agent == x.Agent) &&
						(strategy == "" || strategy == x.Strategy) {
						want = append(want, x.listed)
					}
				}
				w.equal(c, query.Encode(), listOf(want, 0, 100, len(want)), a.Ok(w).Body)
			}
		}
	}
	var plain, full []string
	for _, x := range w.visible(c) {
		plain, full = append(plain, x.listed), append(full, x.full)
	}
	w.equal(c, "whole signals", listOf(full, 0, 100, len(full)), w.get(c, "/v1/signals?view=full&limit=100").Ok(w).Body)
	for offset := 0; offset <= len(plain); offset += 4 {
		page := plain[offset:min(offset+4, len(plain))]
		w.equal(c, fmt.Sprint("page ", offset), listOf(page, offset, 4, len(plain)),
			w.get(c, fmt.Sprintf("/v1/signals?limit=4&offset=%d", offset)).Ok(w).Body)
	}
	return "200"
}

// ofAgents reports whether the listed agents that a caller sees have a name of which there is no signal.
func (w *world) ofAgents(c *caller, name, value string) bool {
	for _, a := range w.agents {
		for _, s := range a["strategies"].([]any) {
			named := name == "agent_id" && a["id"] == value || name == "strategy" && s == value
			if named && w.hasStrategy(c, a["id"].(string), s.(string)) {
				return true
			}
		}
	}
	return false
}

// listOf is a list of signals as it is answered.
func listOf(items []string, offset, limit, total int) string {
	return fmt.Sprintf(`{"signals":[%s],"total":%d,"limit":%d,"offset":%d,"has_more":%t}`, strings.Join(items, ","), total, limit,
		offset, offset+len(items) < total)
}

func (w *world) checkExports(c *caller) string {
	w.Helper()
	for _, query := range []string{"", "&agent_id=trading", "&asset=ETH"} {
		for _, format := range []string{"csv", "jsonl"} {
			path := "/v1/signals/export?format=" + format + query
			a := w.get(c, path)
			if a.Status == http.StatusBadRequest && strings.Contains(query, "agent_id") && !w.ofAgents(c, "agent_id", "trading") {
				continue
			}
			whole := w.callers[0].Get(path).Ok(w).Body
			var want []string
			for i, line := range strings.SplitAfter(whole, "\n") {
				has := func(x *seen) bool { return strings.Contains(line, x.ID) }
				if i == 0 && format == "csv" || slices.ContainsFunc(w.visible(c), has) {
					want = append(want, line)
				}
			}
			w.equal(c, path, strings.Join(want, ""), a.Ok(w).Body)
		}
	}
	return "200"
}

func (w *world) checkWeather(c *caller) string {
	w.Helper()
	var want []string
	for _, x := range w.visible(c) {
		if x.weather != "" {
			want = append(want, x.outlook)
		}
	}
	w.equal(c, "weather", fmt.Sprintf(`{"signals":[%s],"total":%d}`, strings.Join(want, ","), len(want)),
		w.get(c, "/v1/signals/weather").Ok(w).Body)
	return "200"
}

// card is a scorecard, as far as it adds up.
type card struct {
	View       map[string]any
	Recorded   int
	Committed  int
	Statistics struct {
		Count, Wins int
		Total       float64 `json:"total_r"`
	}
	Strategies []map[string]any
	Groups     []json.RawMessage
}

// group is one of the groups.
type group struct {
	Agent     string `json:"agent_id"`
	Strategy  string
	Asset     string
	Recorded  int
	Committed int

	Statistics struct {
		Count, Wins int
		Total       float64 `json:"total_r"`
	}
}

// checkScorecard adds up the groups of the whole account that a view has.
func (w *world) checkScorecard(c *caller) string {
	w.Helper()
	whole := e2e.Decode[card](w, w.callers[0].Get("/v1/scorecard").Ok(w).Body)
	got := e2e.Decode[card](w, w.get(c, "/v1/scorecard").Ok(w).Body)
	var want card
	rows := map[string]int{}
	for _, text := range whole.Groups {
		g := e2e.Decode[group](w, string(text))
		if !w.has(c, g.Agent, g.Asset, g.Strategy) {
			continue
		}
		want.Groups = append(want.Groups, text)
		want.Statistics.Count += g.Statistics.Count
		want.Statistics.Wins += g.Statistics.Wins
		want.Statistics.Total += g.Statistics.Total
		want.Recorded, want.Committed = want.Recorded+g.Recorded, want.Committed+g.Committed
		if !signal.AgentID(g.Agent).BuiltIn() {
			rows[g.Agent+" "+g.Strategy] += g.Statistics.Count
		}
	}
	if len(want.Groups) == 0 {
		want.Groups = []json.RawMessage{}
	}
	gotRows := map[string]int{}
	for _, row := range got.Strategies {
		gotRows[fmt.Sprint(row["agent_id"], " ", row["strategy"])] = int(row["count"].(float64))
	}
	w.equal(c, "strategies", rows, gotRows)
	if math.Abs(want.Statistics.Total-got.Statistics.Total) > 1e-6 {
		w.Errorf("%s: %v R, want %v", c.name, got.Statistics.Total, want.Statistics.Total)
	}
	want.Statistics.Total, want.Strategies, want.View = got.Statistics.Total, got.Strategies, w.shown(c)
	w.equal(c, "scorecard", want, got)
	a := w.get(c, "/v1/scorecard?agent_id=zebra_agent")
	if w.ofAgents(c, "agent_id", "zebra_agent") {
		a.Ok(w)
	} else {
		none := w.get(c, "/v1/scorecard?agent_id=nothing_such")
		w.equal(c, "another agent", withoutPath(none, ""), withoutPath(a, ""))
	}
	return "200"
}

// shown is the view of a reader as answers name it.
func (w *world) shown(c *caller) map[string]any {
	return e2e.Decode[map[string]any](w, e2e.JsonOf(w, c.view))
}

// checkSummary counts the signals that a view has.
func (w *world) checkSummary(c *caller) string {
	w.Helper()
	type sums struct {
		Agent      string `json:"agent_id"`
		Open       int    `json:"open"`
		Closed     int    `json:"closed"`
		TakeProfit int    `json:"take_profit"`
		StopLoss   int    `json:"stop_loss"`
		Expired    int    `json:"expired"`
		AgentExit  int    `json:"agent_exit"`
	}
	type summary struct {
		View    map[string]any
		Signals struct{ Open, Closed int }
		ByAgent []sums `json:"by_agent"`
	}
	want := summary{View: w.shown(c), ByAgent: []sums{}}
	for _, id := range w.agentsOf(c) {
		s := sums{Agent: id}
		for _, x := range w.visible(c) {
			switch {
			case x.Agent != id:
			case x.Status == "open":
				s.Open++
			default:
				s.Closed++
				*map[string]*int{"take_profit": &s.TakeProfit, "stop_loss": &s.StopLoss, "expired": &s.Expired,
					"agent_exit": &s.AgentExit}[*x.Reason]++
			}
		}
		want.Signals.Open, want.Signals.Closed = want.Signals.Open+s.Open, want.Signals.Closed+s.Closed
		want.ByAgent = append(want.ByAgent, s)
	}
	w.equal(c, "summary", want, e2e.Decode[summary](w, w.get(c, "/v1/summary").Ok(w).Body))
	return "200"
}
