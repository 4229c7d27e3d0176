package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// instructions is what a model reads before it uses the tools.
const instructions = "Agents produce signals; each is watched until it closes. Confidence of trading and weather " +
	"signals is the probability to close in profit, mostly 0.40 to 0.45: compare it with break_even_net. There is no " +
	"evidence of an edge unless the reasoning claims one. Confidence of seo is a share of passed checks, no " +
	"probability; that of a text by an agent of the account is what the agent says (claimed). Every answer has " +
	"evidence: the number of closed signals it rests on, the 95 % interval of their hit rate, its break-even, the " +
	"sources of prices, and whether they are simulated. Name these when you report numbers. Nothing here is advice to " +
	"trade."

// statisticsView has the members of statistics that tools show.
type statisticsView struct {
	Count        int      `json:"count" jsonschema:"closed signals with prices"`
	Wins         int      `json:"wins" jsonschema:"closed in profit before costs"`
	HitRate      *float64 `json:"hit_rate"`
	Interval     limitsOf `json:"hit_rate_interval" jsonschema:"95 %, Wilson"`
	BreakEven    *float64 `json:"break_even" jsonschema:"hit rate at which the mean result is 0 before costs"`
	BreakEvenNet *float64 `json:"break_even_net" jsonschema:"the same after costs; compare hit_rate with it"`
	MeanR        *float64 `json:"mean_r" jsonschema:"mean result before costs, in multiples of the distance from entry to stop"`
	ExpectancyR  *float64 `json:"expectancy_r" jsonschema:"mean result after costs"`
	TotalR       *float64 `json:"total_r" jsonschema:"sum after costs"`
	Factor       *float64 `json:"profit_factor" jsonschema:"gains over losses after costs"`
	Drawdown     *float64 `json:"max_drawdown_r"`
	Confidence   *float64 `json:"mean_confidence" jsonschema:"compare with hit_rate"`
	Brier        *float64 `json:"brier_score"`
	BrierSkill   *float64 `json:"brier_skill" jsonschema:"against always forecasting the hit rate; 0 or less is no skill"`
}

// limitsOf are the ends of an interval.
type limitsOf struct {
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
}

// selection is what tools select signals by. A member that is empty selects all.
type selection struct {
	Agent    string `json:"agent_id,omitempty" jsonschema:"trading, weather, seo, or one of the account"`
	Strategy string `json:"strategy,omitempty" jsonschema:"a strategy of an agent, see list_agents"`
	Asset    string `json:"asset,omitempty" jsonschema:"such as BTC, see list_assets, or a subject of content"`
}

func (s selection) values() url.Values {
	return values("agent_id", s.Agent, "strategy", s.Strategy, "asset", s.Asset)
}

// values returns the parameters, given as names and values, that are not empty.
func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

// cardView is a scorecard as tools show it.
type cardView struct {
	View       *readerView    `json:"view,omitempty" jsonschema:"what the key sees: all of this is of it; absent: the account"`
	Statistics statisticsView `json:"statistics"`
	Strategies []strategyView `json:"strategies" jsonschema:"those of the account's agents"`
	Groups     []groupView    `json:"groups"`
}

// readerView is the view of a reader. A member without a list is of all, and one with an empty list of none.
type readerView struct {
	Agents     []string `json:"agents,omitzero"`
	Assets     []string `json:"assets,omitzero"`
	Strategies []string `json:"strategies,omitzero"`
}

// strategyView has the members of a strategy's row that tools show.
type strategyView struct {
	Agent         string   `json:"agent_id"`
	Strategy      string   `json:"strategy"`
	Count         int      `json:"count" jsonschema:"closed signals with prices"`
	HitRate       *float64 `json:"hit_rate"`
	BreakEvenNet  *float64 `json:"break_even_net" jsonschema:"hit rate at which they gain nothing after costs"`
	ExpectancyR   *float64 `json:"expectancy_r" jsonschema:"mean result after costs"`
	Skill         *float64 `json:"skill" jsonschema:"how much more often they gain than by levels, in log odds; null under 20"`
	SkillInterval limitsOf `json:"skill_interval" jsonschema:"95 %; an edge is one whose interval is above 0"`
	SkillSample   int      `json:"skill_sample" jsonschema:"signals behind the skill"`
}

type groupView struct {
	Agent      string         `json:"agent_id"`
	Strategy   string         `json:"strategy"`
	Asset      string         `json:"asset"`
	Timeframe  string         `json:"timeframe"`
	Risk       string         `json:"risk_level"`
	Statistics statisticsView `json:"statistics"`
}

// signalPage is a page of the list of signals.
type signalPage struct {
	Signals []toolSignal `json:"signals"`
	Total   int          `json:"total" jsonschema:"matching signals, whatever the page"`
	HasMore bool         `json:"has_more"`
}

// tools are the tools of the protocol.
type tools struct{ client client }

// addTo adds the tools to a server.
func (t *tools) addTo(to *mcp.Server) {
	reads := &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
	mcp.AddTool(to, &mcp.Tool{Name: "list_agents", Title: "List agents", Annotations: reads,
		Description: "Lists the agents of the service and of the account with their strategies, and how their closed signals " +
			"did. Scope agents:read.",
	}, t.agents)
	mcp.AddTool(to, &mcp.Tool{Name: "list_assets", Title: "List assets", Annotations: reads,
		Description: "Lists the assets that agents can be run on, with their newest prices. Scope signals:read.",
	}, t.assets)
	mcp.AddTool(to, &mcp.Tool{Name: "run_agent", Title: "Run an agent",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)},
		Description: "Runs an agent once and returns its new signal, which is stored and watched until it closes. " +
			"It trades nothing. Counts against the limit of runs. Scope agents:run.",
	}, t.run)
	mcp.AddTool(to, &mcp.Tool{Name: "submit_signal", Title: "Submit a signal",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)},
		Description: "Submits a signal of an agent of the account (owner account in list_agents). It is entered at the " +
			"service's price, stored, and watched until it closes. It trades nothing. Counts against the limit of runs. " +
			"Scope agents:run.",
	}, t.submit)
	mcp.AddTool(to, &mcp.Tool{Name: "close_signal", Title: "Close a signal",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: new(true), IdempotentHint: true, OpenWorldHint: new(false)},
		Description: "Closes an open signal of an agent of the account at the first price after now. Scope agents:run.",
	}, t.close)
	mcp.AddTool(to, &mcp.Tool{Name: "list_signals", Title: "List signals", Annotations: reads,
		Description: "Lists signals of the account, the newest first, with their state. Scope signals:read.",
	}, t.signals)
	mcp.AddTool(to, &mcp.Tool{Name: "get_signal", Title: "Read a signal", Annotations: reads,
		Description: "Reads a signal with its state, its reasoning and, of content, its text. Scope signals:read.",
	}, t.signal)
	mcp.AddTool(to, &mcp.Tool{Name: "scorecard", Title: "How signals did", Annotations: reads,
		Description: "Summarizes closed signals: hit rate with its 95 % interval and its break-even, results before and after " +
			"costs, how well confidence predicted the outcome, in total and by group, and the skill of the strategies of the " +
			"account's agents. Scope signals:read.",
	}, t.scorecard)
}

// result is the text of an answer, with its evidence at the end.
func result(lines []string, e *evidence) *mcp.CallToolResult {
	text := strings.Join(append(lines, e.text()), "\n")
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

type agentTool struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Category    string   `json:"category"`
	Description string   `json:"description"`
	Strategies  []string `json:"strategies"`
	Status      string   `json:"status"`
	Owner       string   `json:"owner" jsonschema:"service (run_agent), or account (submit_signal)"`
	Evidence    evidence `json:"evidence" jsonschema:"how its closed signals did"`
}

type agentsAnswer struct {
	Agents   []agentTool `json:"agents"`
	Evidence evidence    `json:"evidence" jsonschema:"of all agents together"`
}

func (t *tools) agents(
	ctx context.Context, _ *mcp.CallToolRequest, _ struct{},
) (*mcp.CallToolResult, agentsAnswer, error) {
	var a agentsAnswer
	if _, err := t.client.ask(ctx, http.MethodGet, "/v1/agents?limit=100", nil, nil, &a); err != nil {
		return nil, a, err
	}
	a.Evidence = t.evidenceFor(ctx, selection{})
	var lines []string
	for i := range a.Agents {
		agent := &a.Agents[i]
		agent.Evidence = t.evidenceFor(ctx, selection{Agent: agent.ID})
		lines = append(lines, fmt.Sprintf("%s (%s, %s, of the %s): %s Strategies: %s. %s.", agent.ID, agent.Category,
			agent.Status, agent.Owner, agent.Description, strings.Join(agent.Strategies, ", "), agent.Evidence.text()))
	}
	return result(lines, &a.Evidence), a, nil
}

type assetTool struct {
	Asset       string   `json:"asset" jsonschema:"its name; others, such as BTC/USD or bitcoin for BTC, mean it, too"`
	Class       *string  `json:"class" jsonschema:"crypto, stock, fx, metal or commodity; null if unknown"`
	Source      string   `json:"source" jsonschema:"of its prices"`
	Simulated   bool     `json:"simulated" jsonschema:"its prices are simulated"`
	LastPrice   *float64 `json:"last_price"`
	LastPriceAt *string  `json:"last_price_at"`
	Open        bool     `json:"open" jsonschema:"its session is open"`
}

type assetsAnswer struct {
	Assets   []assetTool `json:"assets"`
	Evidence evidence    `json:"evidence" jsonschema:"how closed signals of all assets did"`
}

func (t *tools) assets(
	ctx context.Context, _ *mcp.CallToolRequest, _ struct{},
) (*mcp.CallToolResult, assetsAnswer, error) {
	var a assetsAnswer
	if _, err := t.client.ask(ctx, http.MethodGet, "/v1/assets", nil, nil, &a); err != nil {
		return nil, a, err
	}
	a.Evidence = t.evidenceFor(ctx, selection{})
	lines := []string{fmt.Sprintf("%d assets:", len(a.Assets))}
	for i := range a.Assets {
		asset := &a.Assets[i]
		a.Evidence.add(asset.Source)
		line := asset.Asset + ", source " + asset.Source
		if asset.LastPrice != nil {
			line += ", last price " + string(signal.AppendPrice(nil, *asset.LastPrice))
		}
		lines = append(lines, line)
	}
	return result(lines, &a.Evidence), a, nil
}

// runInput is the input of run_agent. The API checks the values.
type runInput struct {
	Agent      string         `json:"agent_id" jsonschema:"trading, weather, seo, or one of the account that has an endpoint"`
	Asset      string         `json:"asset" jsonschema:"see list_assets; weather: natural_gas, wheat, corn, oil; seo: a subject"`
	Strategy   string         `json:"strategy" jsonschema:"a strategy of the agent, see list_agents"`
	Timeframe  string         `json:"timeframe,omitempty" jsonschema:"1m, 5m, 1h or 1d; default: the agent's, else 1h"`
	Risk       string         `json:"risk_level,omitempty" jsonschema:"low, medium or high; default: the agent's, else medium"`
	Parameters map[string]any `json:"parameters,omitempty" jsonschema:"weather: region; seo: keywords, features, locale"`
	Key        string         `json:"idempotency_key,omitempty" jsonschema:"calls with the same key and arguments run once"`
}

type signalAnswer struct {
	Signal   toolSignal `json:"signal"`
	RunID    string     `json:"run_id,omitempty"`
	Replayed bool       `json:"replayed,omitempty" jsonschema:"the signal is of an earlier call with this idempotency_key"`
	Evidence evidence   `json:"evidence" jsonschema:"how closed signals of this agent, strategy and asset did"`
}

func (t *tools) run(
	ctx context.Context, _ *mcp.CallToolRequest, in runInput,
) (*mcp.CallToolResult, signalAnswer, error) {
	body, err := json.Marshal(struct {
		Asset      string         `json:"asset"`
		Strategy   string         `json:"strategy"`
		Timeframe  string         `json:"timeframe,omitempty"`
		Risk       string         `json:"risk_level,omitempty"`
		Parameters map[string]any `json:"parameters,omitempty"`
	}{in.Asset, in.Strategy, in.Timeframe, in.Risk, in.Parameters})
	if err != nil {
		return nil, signalAnswer{}, fmt.Errorf("encode run: %w", err)
	}
	return t.record(ctx, in.Agent, "/run", body, in.Key)
}

// record makes a signal by a POST to a path below an agent.
func (t *tools) record(
	ctx context.Context, agent, below string, body []byte, key string,
) (*mcp.CallToolResult, signalAnswer, error) {
	var a signalAnswer
	header := http.Header{"Content-Type": {"application/json"}}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	answered, err := t.client.ask(ctx, http.MethodPost, "/v1/agents/"+url.PathEscape(agent)+below, body, header, &a.Signal)
	if err != nil {
		return nil, a, err
	}
	a.RunID, a.Replayed = answered.Get("X-Run-Id"), answered.Get("Idempotency-Replayed") != ""
	return t.oneSignal(ctx, a)
}

// submission is the body of a submission. The API checks the values.
type submission struct {
	Asset      string         `json:"asset" jsonschema:"see list_assets; category content: a subject"`
	Strategy   string         `json:"strategy" jsonschema:"a strategy of the agent, see list_agents"`
	Direction  string         `json:"direction,omitempty" jsonschema:"long or short; category trading must give it"`
	Stop       *stopLevel     `json:"stop,omitempty" jsonschema:"one member; default: the agent's, else by the risk"`
	Target     *targetLevel   `json:"target,omitempty" jsonschema:"one member; default: the agent's, else by the risk"`
	Timeframe  string         `json:"timeframe,omitempty" jsonschema:"1m, 5m, 1h or 1d; default: the agent's, else 1h"`
	Risk       string         `json:"risk_level,omitempty" jsonschema:"low, medium or high; default: the agent's, else medium"`
	ExpiresIn  int64          `json:"expires_in,omitempty" jsonschema:"seconds until it expires, 60 to 3888000"`
	Confidence *float64       `json:"confidence,omitempty" jsonschema:"your probability of a profit; kept as claimed_confidence"`
	Price      *float64       `json:"price,omitempty" jsonschema:"what you saw; refused if the market has moved away from it"`
	Indicators []string       `json:"indicators,omitempty" jsonschema:"names of what you looked at"`
	Reasoning  string         `json:"reasoning,omitempty" jsonschema:"why, in words"`
	Parameters map[string]any `json:"parameters,omitempty" jsonschema:"kept with the signal"`
	Content    string         `json:"content,omitempty" jsonschema:"the text; agents of category content must give it"`
	Outlook    string         `json:"outlook,omitempty" jsonschema:"the report; agents of category weather must give it"`
	Reference  string         `json:"reference,omitempty" jsonschema:"your id of this decision: it makes one signal, ever"`
}

type stopLevel struct {
	Price   *float64 `json:"price,omitempty"`
	Percent *float64 `json:"percent,omitempty" jsonschema:"distance from the entry in percent of it"`
	ATR     *float64 `json:"atr,omitempty" jsonschema:"distance in average true ranges of the timeframe"`
}

type targetLevel struct {
	stopLevel
	R *float64 `json:"r,omitempty" jsonschema:"distance in multiples of that of the stop"`
}

type submitInput struct {
	Agent string `json:"agent_id" jsonschema:"an agent of the account, see list_agents"`
	submission
	Key string `json:"idempotency_key,omitempty" jsonschema:"calls with the same key and arguments submit once"`
}

func (t *tools) submit(
	ctx context.Context, _ *mcp.CallToolRequest, in submitInput,
) (*mcp.CallToolResult, signalAnswer, error) {
	body, err := json.Marshal(in.submission)
	if err != nil {
		return nil, signalAnswer{}, fmt.Errorf("encode submission: %w", err)
	}
	return t.record(ctx, in.Agent, "/signals", body, in.Key)
}

// oneSignal completes an answer with one signal.
func (t *tools) oneSignal(ctx context.Context, a signalAnswer) (*mcp.CallToolResult, signalAnswer, error) {
	one := &a.Signal
	a.Evidence = t.evidenceFor(ctx, selection{one.Agent, one.Strategy, one.Asset})
	a.Evidence.add(one.sources...)
	lines := []string{one.text(), one.Reasoning}
	if one.Content != "" {
		lines = append(lines, one.Content)
	}
	return result(lines, &a.Evidence), a, nil
}

type signalInput struct {
	ID string `json:"signal_id" jsonschema:"such as sig_01M7YQ1WTVKN9DZNWV9NV456V1"`
}

func (t *tools) signal(
	ctx context.Context, _ *mcp.CallToolRequest, in signalInput,
) (*mcp.CallToolResult, signalAnswer, error) {
	return t.known(ctx, http.MethodGet, in, "")
}

func (t *tools) close(
	ctx context.Context, _ *mcp.CallToolRequest, in signalInput,
) (*mcp.CallToolResult, signalAnswer, error) {
	return t.known(ctx, http.MethodPost, in, "/close")
}

// known answers with a signal by a request for a path below it.
func (t *tools) known(
	ctx context.Context, method string, in signalInput, below string,
) (*mcp.CallToolResult, signalAnswer, error) {
	id, ok := signal.ParseSignalID(in.ID)
	if !ok {
		id = "none" // is no signal either, while words such as export are other paths
	}
	var a signalAnswer
	if _, err := t.client.ask(ctx, method, "/v1/signals/"+string(id)+below, nil, nil, &a.Signal); err != nil {
		return nil, a, err
	}
	return t.oneSignal(ctx, a)
}

type signalsInput struct {
	selection
	Direction     string   `json:"direction,omitempty" jsonschema:"long or short"`
	Status        string   `json:"status,omitempty" jsonschema:"open or closed"`
	MinConfidence *float64 `json:"min_confidence,omitempty" jsonschema:"0 to 1"`
	Since         string   `json:"since,omitempty" jsonschema:"only signals made after this time, such as 2026-11-21T09:30:00Z"`
	Limit         int      `json:"limit,omitempty" jsonschema:"1 to 100; default 25"`
	Offset        int      `json:"offset,omitempty" jsonschema:"signals to pass over"`
}

type signalsAnswer struct {
	signalPage
	Evidence evidence `json:"evidence" jsonschema:"how closed signals of this agent, strategy and asset did"`
}

func (t *tools) signals(
	ctx context.Context, _ *mcp.CallToolRequest, in signalsInput,
) (*mcp.CallToolResult, signalsAnswer, error) {
	v := values("direction", in.Direction, "status", in.Status, "since", in.Since, "view", "full")
	maps.Copy(v, in.values())
	if in.MinConfidence != nil {
		v.Set("min_confidence", strconv.FormatFloat(*in.MinConfidence, 'f', -1, 64))
	}
	if in.Limit != 0 {
		v.Set("limit", strconv.Itoa(in.Limit))
	}
	if in.Offset != 0 {
		v.Set("offset", strconv.Itoa(in.Offset))
	}
	var a signalsAnswer
	if _, err := t.client.ask(ctx, http.MethodGet, "/v1/signals?"+v.Encode(), nil, nil, &a.signalPage); err != nil {
		return nil, a, err
	}
	a.Evidence = t.evidenceFor(ctx, in.selection)
	lines := []string{fmt.Sprintf("%d of %d signals, the newest first:", len(a.Signals), a.Total)}
	for i := range a.Signals {
		one := &a.Signals[i]
		one.Content = "" // get_signal has it
		a.Evidence.add(one.sources...)
		lines = append(lines, one.text())
	}
	return result(lines, &a.Evidence), a, nil
}

type scorecardInput struct {
	selection
	Timeframe string `json:"timeframe,omitempty" jsonschema:"1m, 5m, 1h or 1d"`
	Since     string `json:"since,omitempty" jsonschema:"as for GET /v1/scorecard, such as 2026-11-21T09:30:00Z"`
}

type scorecardAnswer struct {
	cardView
	Evidence evidence `json:"evidence"`
}

func (t *tools) scorecard(
	ctx context.Context, _ *mcp.CallToolRequest, in scorecardInput,
) (*mcp.CallToolResult, scorecardAnswer, error) {
	v := values("timeframe", in.Timeframe, "since", in.Since)
	maps.Copy(v, in.selection.values())
	var a scorecardAnswer
	if _, err := t.client.ask(ctx, http.MethodGet, "/v1/scorecard?"+v.Encode(), nil, nil, &a.cardView); err != nil {
		return nil, a, err
	}
	a.Evidence = t.evidenceOf(ctx, in.selection, &a.cardView, nil)
	for _, part := range []string{in.Timeframe, in.Since} {
		if part != "" {
			a.Evidence.Of += ", " + part
		}
	}
	lines := []string{"All: " + a.Statistics.text()}
	for i := range a.Strategies {
		lines = append(lines, a.Strategies[i].text())
	}
	for i := range a.Groups {
		g := &a.Groups[i]
		lines = append(lines, fmt.Sprintf("%s/%s %s %s %s: %s", g.Agent, g.Strategy, g.Asset, g.Timeframe, g.Risk,
			g.Statistics.text()))
	}
	return result(lines, &a.Evidence), a, nil
}

// number is a figure as texts have it.
func number(x *float64, form string, scale float64) string {
	if x == nil {
		return "none"
	}
	return fmt.Sprintf(form, scale**x)
}

// text is the row in a line.
func (s *strategyView) text() string {
	return fmt.Sprintf("Strategy %s/%s: %d closed, hit rate %s (break-even after costs %s), %s R a signal after costs, "+
		"skill %s (95 %% interval %s to %s) from %d signals", s.Agent, s.Strategy, s.Count,
		number(s.HitRate, "%.1f %%", 100), number(s.BreakEvenNet, "%.1f %%", 100), number(s.ExpectancyR, "%+.3f", 1),
		number(s.Skill, "%+.2f", 1), number(s.SkillInterval.Low, "%+.2f", 1), number(s.SkillInterval.High, "%+.2f", 1),
		s.SkillSample)
}

// text is the statistics in a line.
func (s *statisticsView) text() string {
	return fmt.Sprintf("%d closed, %d in profit, hit rate %s (95 %% interval %s to %s; break-even %s, after costs %s), "+
		"mean confidence %s, %s R a signal before and %s R after costs, in total %s R after costs", s.Count, s.Wins,
		number(s.HitRate, "%.1f %%", 100), number(s.Interval.Low, "%.1f %%", 100),
		number(s.Interval.High, "%.1f %%", 100), number(s.BreakEven, "%.1f %%", 100),
		number(s.BreakEvenNet, "%.1f %%", 100), number(s.Confidence, "%.1f %%", 100),
		number(s.MeanR, "%+.3f", 1), number(s.ExpectancyR, "%+.3f", 1), number(s.TotalR, "%+.2f", 1))
}
