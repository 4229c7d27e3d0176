package http

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/agentsignal/agentsignal/actors/agent"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// RunSpecs reads and checks what the bodies of runs, scans, backtests and schedules have in common: the
// assets, the strategy and its options.
type RunSpecs struct {
	agents *AgentCatalogue
	assets AssetNames
}

// NewRunSpecs returns the rules of bodies for the catalogues of agents and assets.
func NewRunSpecs(agents *AgentCatalogue, assets AssetNames) *RunSpecs {
	return &RunSpecs{agents, assets}
}

// AssetNames has the names of assets. See market.AssetList.
type AssetNames interface {
	// Name returns the catalogue name of an asset by any of its spellings, or the spelling
	// itself.
	Name(asset string) string
	// Known reports whether there are prices of an asset by its catalogue name, or a configured source lists it.
	Known(ctx context.Context, name string) bool
	// Check reports whether a source can have prices of an asset by its catalogue name. If
	// not, it returns the names that may have been meant.
	Check(ctx context.Context, name string) (nearest []string, ok bool)
}

// maxAssetLength is in characters.
const maxAssetLength = 64

const (
	assetRule  = "must be a name such as BTC: GET /v1/assets lists all"
	assetsRule = "must be a list of 1 to 50 names such as BTC: GET /v1/assets lists all"
)

// require records a fault for a missing strategy and a missing member asset, which is
// the name of either the asset or the list of assets. The details depend on the agent, if it
// exists.
func (s *RunSpecs) require(c *call, o *request.Object, id, asset string) {
	if o.Has(asset) && o.Has("strategy") { // nearly always
		return
	}
	a, err := s.agents.named(c.r.Context(), &c.principal, id)
	if err != nil {
		a.Strategies = strategies
	}
	rule := assetRule
	switch {
	case asset == "assets":
		rule = assetsRule
	case err == nil && !hasPrices(&a):
		rule = "must be a subject such as standing desk"
	case a.Category == signal.Weather:
		rule = request.OneOf(agent.Commodities)
	}
	o.Require(asset, rule)
	o.Require("strategy", request.OneOf(a.Strategies))
}

// readAsset reads the asset, trimmed, or returns "" if it is missing or not valid.
func readAsset(o *request.Object) string {
	asset, ok := o.Text("asset")
	if !ok {
		return ""
	}
	asset = strings.TrimSpace(asset)
	if code, detail := request.CheckText(asset, maxAssetLength); code != "" {
		o.Bad("asset", code, detail)
		return ""
	}
	return asset
}

// readAssets reads a list of assets, trimmed, or returns nil if it is missing or not valid.
func readAssets(o *request.Object) []string {
	seen := map[string]bool{}
	assets, ok := o.Texts("assets", agent.MaxScanned, assetsRule, func(item string) (code, detail string) {
		item = strings.TrimSpace(item)
		if code, detail := request.CheckText(item, maxAssetLength); code != "" {
			return code, detail
		}
		key := strings.ToUpper(item)
		if seen[key] {
			return request.CodeDuplicate, "is named twice"
		}
		seen[key] = true
		return "", ""
	})
	if ok && len(assets) == 0 {
		o.Bad("assets", request.CodeTooShort, assetsRule)
	}
	if !ok {
		return nil
	}
	for i := range assets {
		assets[i] = strings.TrimSpace(assets[i])
	}
	return assets
}

// runSpec is what the bodies of runs, scans and backtests have in common.
type runSpec struct {
	signal.RunRequest
	kind          signal.JobKind
	assets        []string // of a scan, instead of the asset
	strategyGiven bool
}

// read reads a run of a kind by the agent with the given ID, which need not exist.
func (s *RunSpecs) read(c *call, o *request.Object, kind signal.JobKind, id string) runSpec {
	asset := "asset"
	if kind == signal.JobScan {
		asset = "assets"
	}
	s.require(c, o, id, asset)
	r := runSpec{kind: kind}
	r.Account = c.principal.Account
	r.read(o)
	return r
}

// read reads the assets, the strategy, the timeframe and the risk.
func (r *runSpec) read(o *request.Object) {
	if r.kind == signal.JobScan {
		r.assets = readAssets(o)
	} else {
		r.Asset = readAsset(o)
	}
	r.Strategy, r.strategyGiven = o.Text("strategy")
	r.Timeframe, _ = request.Choice(o, "timeframe", signal.Timeframes)
	r.Risk, _ = request.Choice(o, "risk_level", signal.RiskLevels)
}

// readParameters reads the options of all agents. agent.Check refuses those of other agents.
func readParameters(o *request.Object) signal.Parameters {
	var p signal.Parameters
	const textsRule = "must be an array of strings"
	anyText := func(string) (code, detail string) { return "", "" }
	if region, ok := o.Text("region"); ok {
		if p.Region = region; region == "" {
			o.Bad("region", request.CodeInvalidValue, request.OneOf(agent.Regions))
		}
	}
	p.Keywords, _ = o.Texts("keywords", agent.MaxPhrases, textsRule, anyText)
	p.Features, _ = o.Texts("features", agent.MaxPhrases, textsRule, anyText)
	if locale, ok := o.Text("locale"); ok {
		if p.Locale = locale; locale == "" {
			o.Bad("locale", request.CodeTooShort, "must not be empty")
		}
	}
	o.Close()
	return p
}

// checkForAgent records the faults of r for the agent of the path, and sets the agent. If it
// does not exist, the error is KindNotFound, and the body is checked for the agent that has
// its strategy: the faults of a body that no agent accepts come first.
func (s *RunSpecs) checkForAgent(c *call, r *runSpec) error {
	a, missing := s.agents.named(c.r.Context(), &c.principal, c.vars["id"])
	if missing != nil && signal.KindOf(missing) != signal.KindNotFound {
		return missing
	}
	if missing != nil {
		all := signal.Agents()
		i := slices.IndexFunc(all, func(a signal.Agent) bool { return a.Has(r.Strategy) })
		if i < 0 {
			if r.strategyGiven {
				c.faults.Body("/strategy", request.CodeInvalidValue, request.OneOf(strategies))
			}
			return missing
		}
		a = all[i]
	}
	if a.Account != "" {
		r.Own = &a
	}
	s.check(c, a, r)
	r.Agent = a.ID
	return cmp.Or(missing, agent.NotRunnable(&a))
}

// check records the faults of r for the agent a, whose defaults it gives r. It gives the assets, or if they are
// nil the asset, their catalogue names.
func (s *RunSpecs) check(c *call, a signal.Agent, r *runSpec) {
	f := &c.faults
	r.Timeframe = cmp.Or(r.Timeframe, a.Defaults.Timeframe, signal.H1)
	r.Risk = cmp.Or(r.Risk, a.Defaults.Risk, signal.MediumRisk)
	if r.strategyGiven && r.Strategy == "" {
		f.Body("/strategy", request.CodeInvalidValue, request.OneOf(a.Strategies))
	}
	at, one := assetsPointer, []string{r.Asset}
	assets := r.assets
	if assets == nil {
		assets, at = one, assetPointer
	}
	s.name(a, assets, at, f)
	r.Asset = one[0]
	j := signal.Job{Kind: r.kind, Request: r.RunRequest, Assets: r.assets}
	for _, fault := range agent.CheckJob(a, &j) {
		f.Body(fault.Pointer, fault.Code, fault.Detail)
	}
	s.find(c.r.Context(), a, assets, at, f)
}

// assetPointer and assetsPointer return the JSON Pointer of an asset: of a request with one
// asset, and of the asset at an index of a list.
func assetPointer(int) string    { return "/asset" }
func assetsPointer(i int) string { return "/assets/" + strconv.Itoa(i) }

// hasPrices reports whether the assets of an agent are those of sources. What an account's agent for weather or content
// writes about is any subject.
func hasPrices(a *signal.Agent) bool {
	return a.Category == signal.Trading || a.Category == signal.Weather && a.Account == ""
}

// name replaces assets by their catalogue names and records those that are given
// twice, under two spellings. A subject of content has no other spelling.
func (s *RunSpecs) name(a signal.Agent, assets []string, at func(int) string, f *request.Faults) {
	if a.Category == signal.Content {
		return
	}
	for i, asset := range assets {
		if asset == "" {
			continue // its fault is recorded already
		}
		assets[i] = s.assets.Name(asset)
		if slices.ContainsFunc(assets[:i], func(other string) bool { return strings.EqualFold(other, assets[i]) }) {
			f.Body(at(i), request.CodeDuplicate, "is named twice: it is "+assets[i])
		}
	}
}

// find records the assets for which no source has prices, except those that have
// another fault.
func (s *RunSpecs) find(ctx context.Context, a signal.Agent, assets []string, at func(int) string,
	f *request.Faults) {
	if !hasPrices(&a) {
		return
	}
	for i, asset := range assets {
		pointer := at(i)
		if asset == "" || f.At(pointer) {
			continue
		}
		nearest, ok := s.assets.Check(ctx, asset)
		if ok {
			continue
		}
		f.Body(pointer, request.CodeInvalidValue, "no source has this asset: "+adviceOn(nearest))
	}
}

// strategies and allAgents are those of all catalogues.
var (
	strategies = signal.Strategies()
	allAgents  = signal.AgentIDs()
)
