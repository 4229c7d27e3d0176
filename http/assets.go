package http

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/agentsignal/agentsignal/actors/market"
	"github.com/agentsignal/agentsignal/actors/signal"
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
}

// anyAsset is the default of Options.Assets: it accepts every name.
type anyAsset struct{}

func (anyAsset) Name(asset string) string                            { return asset }
func (anyAsset) Check(context.Context, string) ([]string, bool)      { return nil, true }
func (anyAsset) Assets(context.Context) ([]market.AssetState, error) { return nil, nil }

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
		advice := ": GET /v1/assets lists all"
		if len(nearest) > 0 {
			advice = "; the nearest names are " + strings.Join(nearest, ", ")
		}
		f.Body(pointer, request.CodeInvalidValue, "no source has this asset"+advice)
	}
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
