package http

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/marketdata"
	"github.com/agentsignal/agentsignal/actors/spelling"
	"github.com/agentsignal/agentsignal/http/request"
)

// Assets has the names and the prices of assets. See market.Market.
type Assets interface {
	// Name returns the catalogue name of an asset by any of its spellings, or the spelling
	// itself.
	Name(asset string) string
	// Check reports whether a source can have prices of an asset by its catalogue name. If
	// not, it returns the names that may have been meant.
	Check(ctx context.Context, name string) (nearest []string, ok bool)
	// Assets returns all assets, sorted by name.
	Assets(ctx context.Context) ([]market.AssetState, error)
	// Bars returns the stored bars of an asset by any of its spellings, oldest first. A zero time
	// is no bound. KindNotFound.
	Bars(ctx context.Context, asset string, tf signal.Timeframe, from, to time.Time) ([]marketdata.Bar, error)
}

// anyAsset is the default of Options.Assets: it accepts every name.
type anyAsset struct{}

func (anyAsset) Name(asset string) string                            { return asset }
func (anyAsset) Check(context.Context, string) ([]string, bool)      { return nil, true }
func (anyAsset) Assets(context.Context) ([]market.AssetState, error) { return nil, nil }
func (anyAsset) Bars(context.Context, string, signal.Timeframe, time.Time, time.Time) ([]marketdata.Bar, error) {
	return nil, nil
}

// assetPointer and assetsPointer return the JSON Pointer of an asset: of a request with one
// asset, and of the asset at an index of a list.
func assetPointer(int) string    { return "/asset" }
func assetsPointer(i int) string { return "/assets/" + strconv.Itoa(i) }

// nameAssets replaces assets by their catalogue names and records those that are given
// twice, under two spellings. A subject of content has no other spelling.
func (s *Server) nameAssets(a signal.Agent, assets []string, at func(int) string, f *request.Faults) {
	if a.Category == signal.Content {
		return
	}
	for i, asset := range assets {
		if asset == "" {
			continue // its fault is recorded already
		}
		assets[i] = s.o.Assets.Name(asset)
		if slices.ContainsFunc(assets[:i], func(other string) bool { return strings.EqualFold(other, assets[i]) }) {
			f.Body(at(i), request.CodeDuplicate, "is named twice: it is "+assets[i])
		}
	}
}

// findAssets records the assets for which no source has prices, except those that have
// another fault.
func (s *Server) findAssets(ctx context.Context, a signal.Agent, assets []string, at func(int) string,
	f *request.Faults) {
	if a.Category == signal.Content {
		return
	}
	for i, asset := range assets {
		pointer := at(i)
		if asset == "" || f.At(pointer) {
			continue
		}
		nearest, ok := s.o.Assets.Check(ctx, asset)
		if ok {
			continue
		}
		advice := ": " + assetsAdvice
		if len(nearest) > 0 {
			advice = "; the nearest names are " + strings.Join(nearest, ", ")
		}
		f.Body(pointer, request.CodeInvalidValue, "no source has this asset"+advice)
	}
}

// assetsAdvice is for an unknown asset without similar names.
const assetsAdvice = "GET /v1/assets lists all"

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

// listAssets answers GET /v1/assets.
func (s *Server) listAssets(c *call) error {
	assets, err := s.o.Assets.Assets(c.r.Context())
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, assetList{views(assets, viewAsset)})
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

// assetBars answers GET /v1/assets/{asset}/bars.
func (s *Server) assetBars(c *call) error {
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
	bars, err := s.o.Assets.Bars(c.r.Context(), name, timeframe, from, to)
	if signal.KindOf(err) == signal.KindNotFound {
		return s.unknownAsset(c.r.Context(), name)
	}
	if err != nil {
		return err
	}
	bars = bars[max(0, len(bars)-maxShownBars):]
	return c.value(http.StatusOK, barList{views(bars, viewBar)})
}

// unknownAsset returns the error of an asset without prices. It suggests similar names.
func (s *Server) unknownAsset(ctx context.Context, name string) error {
	if nearest, ok := s.o.Assets.Check(ctx, s.o.Assets.Name(name)); !ok && len(nearest) > 0 {
		return notFound("asset", spelling.DidYouMean(nearest))
	}
	return notFound("asset", assetsAdvice)
}
