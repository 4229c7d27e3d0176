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
		f.Body(pointer, request.CodeInvalidValue, "no source has this asset: "+adviceOn(nearest))
	}
}

// assetsAdvice is for an unknown asset.
const assetsAdvice = "GET /v1/assets lists all"

// adviceOn returns what to do about an unknown asset with similar names.
func adviceOn(nearest []string) string {
	return strings.TrimSpace(spelling.DidYouMean(nearest) + " " + assetsAdvice)
}

// filterAsset reads the parameter asset of a list.
func (s *Server) filterAsset(c *call) string {
	name := c.query.Text("asset", maxAssetLength)
	if name != "" {
		if code, detail := s.checkFilterAsset(c, name); code != "" {
			c.faults.Add(request.InQuery, "asset", code, detail)
		}
	}
	return name
}

// checkFilterAsset returns the fault of an asset in a filter, or empty texts. Any name may be a subject of
// content, but one that looks misspelt would silently select nothing.
func (s *Server) checkFilterAsset(c *call, name string) (code, detail string) {
	if code, detail = request.CheckText(name, maxAssetLength); code != "" {
		return code, detail
	}
	if near := s.o.Catalogue.SuggestAssets(c.r.Context(), c.principal.Account, name); len(near) > 0 {
		return request.CodeInvalidValue, "neither an asset nor a signal of the account has this name: " + adviceOn(near)
	}
	return "", ""
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
	nearest, _ := s.o.Assets.Check(ctx, s.o.Assets.Name(name))
	return notFound("asset", adviceOn(nearest))
}
