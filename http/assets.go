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

// Assets knows the names of assets, and what they cost. See market.Market.
type Assets interface {
	// Name returns the catalogue name of an asset by any of its spellings, or the spelling
	// itself.
	Name(asset string) string
	// Check reports whether there can be prices of an asset, and if not, which names may
	// have been meant.
	Check(ctx context.Context, asset string) (nearest []string, ok bool)
	// Assets returns all that there are, by name.
	Assets(ctx context.Context) ([]market.AssetState, error)
}

// anyAsset is Assets where nothing is known of names.
type anyAsset struct{}

func (anyAsset) Name(asset string) string                            { return asset }
func (anyAsset) Check(context.Context, string) ([]string, bool)      { return nil, true }
func (anyAsset) Assets(context.Context) ([]market.AssetState, error) { return nil, nil }

// assetPointer is where the only asset of a request stands, assetsPointer where the one
// with an index does.
func assetPointer(int) string    { return "/asset" }
func assetsPointer(i int) string { return "/assets/" + strconv.Itoa(i) }

// nameAssets replaces assets by their catalogue names, and records those that are given
// under two spellings. Subjects of content have no other name.
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

// findAssets records the assets for which no source has prices, unless they have another
// fault.
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
		switch {
		case ok:
		case len(nearest) == 0:
			f.Body(pointer, request.CodeInvalidValue,
				"no source of this service knows such an asset: GET /v1/assets lists those that there are")
		default:
			f.Body(pointer, request.CodeInvalidValue,
				"no source of this service knows such an asset; the nearest names are "+strings.Join(nearest, ", "))
		}
	}
}

// listAssets answers GET /v1/assets.
func (s *Server) listAssets(c *call) error {
	if err := c.faults.Err(); err != nil {
		return err
	}
	assets, err := s.o.Assets.Assets(c.r.Context())
	if err != nil {
		return err
	}
	b := append(make([]byte, 0, 32+160*len(assets)), `{"assets":[`...)
	for i := range assets {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendAsset(b, &assets[i])
	}
	return c.json(http.StatusOK, append(b, `]}`...))
}

func appendAsset(b []byte, a *market.AssetState) []byte {
	b = append(b, `{"asset":`...)
	b = signal.AppendText(b, a.Symbol)
	b = append(b, `,"class":`...)
	if a.Class == "" {
		b = append(b, `null`...)
	} else {
		b = signal.AppendText(b, a.Class)
	}
	b = append(b, `,"source":`...)
	b = signal.AppendText(b, a.Source)
	b = append(b, `,"simulated":`...)
	b = strconv.AppendBool(b, a.Simulated)
	b = append(b, `,"last_price":`...)
	if a.LastAt.IsZero() {
		b = append(b, `null`...)
	} else {
		b = signal.AppendPrice(b, a.Last)
	}
	b = append(b, `,"last_price_at":`...)
	b = appendTimeOrNull(b, a.LastAt)
	b = append(b, `,"open":`...)
	return append(strconv.AppendBool(b, a.Open), '}')
}
