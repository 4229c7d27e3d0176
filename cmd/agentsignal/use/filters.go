package use

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"

	"github.com/agentsignal/agentsignal/actors/market/assets"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
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
	flags.StringSliceVar(&f.filters.Agents, "agent", nil, "only these agents: trading, weather or seo")
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

// checkAssets refuses an asset that looks like a misspelt asset with prices. It allows all
// other names: subjects of content, and assets whose prices others write to Redis, have any
// name. It writes a warning of such a name to warnings.
func checkAssets(ctx context.Context, c *client.Client, names []string, warnings io.Writer) error {
	if len(names) == 0 {
		return nil
	}
	list, err := c.Assets(ctx)
	if p, ok := errors.AsType[*client.Problem](err); ok && (p.Temporary() || p.Status == 403 || p.Status == 404) {
		return nil // the key has no scope for the list, or the service has none
	}
	if err != nil {
		return remote.Explain(err)
	}
	var known []string
	for _, a := range list.Assets {
		known = append(known, a.Asset)
	}
	for _, name := range names {
		if slices.ContainsFunc(known, func(k string) bool { return assets.Key(k) == assets.Key(name) }) {
			continue
		}
		if near := command.OrNearest(name, known); near != "" {
			return fmt.Errorf("--assets: the service has no asset %q%s", name, near)
		}
		fmt.Fprintf(warnings, "agentsignal: the service lists no prices of %q: it may have none, "+
			"unless this is another name of a listed asset\n", name)
	}
	return nil
}
