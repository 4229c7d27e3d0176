package http

import (
	"slices"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// readFilter reads the filters of a webhook, or returns nil if they are missing. An object
// without a member that has a value removes the filters.
func (s *Server) readFilter(c *call, o *request.Object) *signal.Filter {
	in, ok := o.Object("filters")
	if !ok {
		return nil
	}
	f := &signal.Filter{}
	f.Assets, _ = in.Texts("assets", signal.MaxFilterAssets, "must be a list of assets",
		func(item string) (code, detail string) { return s.checkFilterAsset(c, item) })
	f.Agents = readKnown(in, "agents", signal.AgentIDs())
	f.Strategies = readKnown(in, "strategies", signal.Strategies())
	f.Directions = readKnown(in, "directions", signal.Directions)
	if x, ok := in.Number("min_confidence", 0, 1); ok {
		f.MinConfidence = &x
	}
	if x, ok := in.Number("min_expected_r_net", -signal.MaxFilterR, signal.MaxFilterR); ok {
		f.MinExpectedRNet = &x
	}
	in.Close()
	return f
}

// readKnown reads a list of some of known, each at most once.
func readKnown[T ~string](o *request.Object, name string, known []T) []T {
	var list []T
	o.Texts(name, len(known), request.SomeOf(known), func(item string) (code, detail string) {
		switch {
		case !slices.Contains(known, T(item)):
			return request.CodeInvalidValue, request.OneOf(known)
		case slices.Contains(list, T(item)):
			return request.CodeDuplicate, "is given more than once"
		}
		list = append(list, T(item))
		return "", ""
	})
	return list
}

// filterView is the filter of a webhook. An empty list, and a number that is null, accept all.
type filterView struct {
	Assets          []string           `json:"assets"`
	Agents          []signal.AgentID   `json:"agents"`
	Strategies      []string           `json:"strategies"`
	Directions      []signal.Direction `json:"directions"`
	MinConfidence   *float64           `json:"min_confidence"`
	MinExpectedRNet *float64           `json:"min_expected_r_net"`
}

func viewFilter(f *signal.Filter) *filterView {
	if f == nil {
		return nil
	}
	return &filterView{list(f.Assets), list(f.Agents), list(f.Strategies), list(f.Directions), f.MinConfidence,
		f.MinExpectedRNet}
}
