package terminal

import (
	"github.com/spf13/pflag"

	"github.com/agentsignal/agentsignal/http/client"
)

// streamFilters are the filters of the stream as flags.
type streamFilters struct {
	filters                    client.Filters
	minConfidence, minExpected float64
}

func (f *streamFilters) add(flags *pflag.FlagSet) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "asset" { // as the other commands have it
			name = "assets"
		}
		return pflag.NormalizedName(name)
	})
	flags.StringSliceVar(&f.filters.Assets, "assets", nil, "only these assets, by any of their names; also --asset")
	flags.StringSliceVar(&f.filters.Agents, "agent", nil, "only these agents, such as trading")
	flags.StringSliceVar(&f.filters.Strategies, "strategy", nil, "only these strategies")
	flags.StringSliceVar(&f.filters.Directions, "direction", nil, "only long, or only short")
	flags.Float64Var(&f.minConfidence, "min-confidence", 0, "only with this confidence or more, 0 to 1")
	flags.Float64Var(&f.minExpected, "min-expected-r", 0, "only with this expected R after costs or more")
}

// given returns the filters after flags, to which they were added, have been parsed.
func (f *streamFilters) given(flags *pflag.FlagSet) client.Filters {
	if flags.Changed("min-confidence") {
		f.filters.MinConfidence = &f.minConfidence
	}
	if flags.Changed("min-expected-r") {
		f.filters.MinExpectedRNet = &f.minExpected
	}
	return f.filters
}
