package http

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/spelling"
	"github.com/agentsignal/agentsignal/http/request"
)

// Assets has the names and the prices of assets. See market.AssetList.
type Assets interface {
	AssetNames
	// Assets returns all assets, sorted by name.
	Assets(ctx context.Context) ([]market.AssetState, error)
	// Bars returns the stored bars of an asset by any of its spellings, oldest first. A zero time
	// is no bound. KindNotFound.
	Bars(ctx context.Context, asset string, tf signal.Timeframe, from, to time.Time) ([]marketdata.Bar, error)
}

// AssetHandlers answer for assets and their bars.
type AssetHandlers struct{ assets Assets }

// NewAssetHandlers returns the handlers of assets.
func NewAssetHandlers(assets Assets) *AssetHandlers { return &AssetHandlers{assets} }

// Routes implements Resource.
func (h *AssetHandlers) Routes() []*Route {
	return []*Route{
		route("/v1/assets", methods{"GET": seen(immediate(get(signal.SignalsRead, h.list)))}),
		route("/v1/assets/{asset}/bars", methods{"GET": seen(immediate(get(signal.SignalsRead, h.bars,
			"timeframe", "from", "to")))}),
	}
}

// assetsAdvice is for an unknown asset.
const assetsAdvice = "GET /v1/assets lists all"

// adviceOn returns what to do about an unknown asset with similar names.
func adviceOn(nearest []string) string {
	return strings.TrimSpace(spelling.DidYouMean(nearest) + " " + assetsAdvice)
}

type assetList struct {
	Assets []assetView `json:"assets"`
}

type assetView struct {
	Asset       string  `json:"asset"`
	Class       *string `json:"class"`
	Source      string  `json:"source"`
	Simulated   bool    `json:"simulated"`
	LastPrice   *number `json:"last_price"`
	LastPriceAt instant `json:"last_price_at"`
	Open        bool    `json:"open"`
}

func viewAsset(a *market.AssetState) assetView {
	v := assetView{a.Symbol, orNull(a.Class), a.Source, a.Simulated, nil, instant(a.LastAt), a.Open}
	if !a.LastAt.IsZero() {
		v.LastPrice = new(number(a.Last))
	}
	return v
}

// list answers GET /v1/assets.
func (h *AssetHandlers) list(c *call) error {
	assets, err := h.seen(c)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, assetList{views(assets, viewAsset)})
}

// seen returns the assets that the principal of the request sees, sorted by name.
func (h *AssetHandlers) seen(c *call) ([]market.AssetState, error) {
	all, err := h.assets.Assets(c.r.Context())
	if c.principal.View == nil {
		return all, err
	}
	var seen []market.AssetState
	for _, a := range all {
		if c.principal.View.SeesAsset(a.Symbol) {
			seen = append(seen, a)
		}
	}
	return seen, err
}

// maxShownBars is the maximum number of bars in an answer: as many as the store keeps.
const maxShownBars = 1500

type barList struct {
	Bars []barView `json:"bars"`
}

type barView struct {
	OpenTime instant `json:"open_time"`
	Open     number  `json:"open"`
	High     number  `json:"high"`
	Low      number  `json:"low"`
	Close    number  `json:"close"`
	Volume   number  `json:"volume"`
}

func viewBar(b *marketdata.Bar) barView {
	return barView{
		OpenTime: instant(time.UnixMilli(b.OpenTime)),
		Open:     number(b.Open),
		High:     number(b.High),
		Low:      number(b.Low),
		Close:    number(b.Close),
		Volume:   number(b.Volume),
	}
}

// bars answers GET /v1/assets/{asset}/bars.
func (h *AssetHandlers) bars(c *call) error {
	q := c.query
	timeframe := cmp.Or(request.Option(q, "timeframe", signal.Timeframes), signal.H1)
	from, to := q.Times("from", "to")
	if err := c.faults.Err(); err != nil {
		return err
	}
	name := strings.TrimSpace(c.vars["asset"])
	if code, _ := request.CheckText(name, maxAssetLength); code != "" {
		return notFound("asset", assetsAdvice)
	}
	if !c.principal.View.SeesAsset(h.assets.Name(name)) {
		return h.unknown(c, name)
	}
	bars, err := h.assets.Bars(c.r.Context(), name, timeframe, from, to)
	if signal.KindOf(err) == signal.KindNotFound {
		return h.unknown(c, name)
	}
	if err != nil {
		return err
	}
	bars = bars[max(0, len(bars)-maxShownBars):]
	return c.value(http.StatusOK, barList{views(bars, viewBar)})
}

// unknown returns the error of an asset without prices, or one that a reader does not see. It suggests similar names. To a
// reader of some assets these are all that there are.
func (h *AssetHandlers) unknown(c *call, name string) error {
	name = h.assets.Name(name)
	if v := c.principal.View; v != nil && !v.Assets.All() {
		seen, err := h.seen(c)
		if err != nil {
			return err
		}
		symbols := views(seen, func(a *market.AssetState) string { return a.Symbol })
		return notFound("asset", adviceOn(spelling.Nearest(name, symbols)))
	}
	nearest, _ := h.assets.Check(c.r.Context(), name)
	return notFound("asset", adviceOn(nearest))
}
