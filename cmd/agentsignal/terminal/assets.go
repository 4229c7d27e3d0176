package terminal

import (
	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

// assetColumns are the columns of the list of assets.
var assetColumns = []column[client.Asset]{
	{"asset", func(a *client.Asset) any { return a.Asset }},
	{"class", func(a *client.Asset) any { return a.Class }},
	{"source", func(a *client.Asset) any { return a.Source }},
	{"last_price", func(a *client.Asset) any { return price{a.LastPrice, a.Asset, nil} }},
	{"last_price_at", func(a *client.Asset) any { return a.LastPriceAt }},
	{"session", func(a *client.Asset) any {
		if a.Open {
			return "open"
		}
		return "closed"
	}},
}

func assetsCommand(dataDir func() (string, error)) *cobra.Command {
	var s session
	c := &cobra.Command{
		Use: "assets", Short: "List the assets that agents can be run on", Args: cobra.NoArgs,
		Long: "List the assets that have prices, and the known ones that a source of the service may have. Runs and filters\n" +
			"take an asset by any of its names: BTC is also btc, BTCUSDT, BTC/USD and bitcoin.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			all, err := c.Assets(cmd.Context())
			if err != nil {
				return remote.Explain(err)
			}
			return list(p, "assets", assetColumns, all)
		},
	}
	s.add(c, dataDir)
	return c
}
