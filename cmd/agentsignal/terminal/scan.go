package terminal

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

func scanCommand(dataDir func() (string, error)) *cobra.Command {
	var s session
	var in client.ScanRequest
	c := &cobra.Command{
		Use: "scan AGENT", Short: "Compare what an agent would say of many assets, without making signals",
		Args: cobra.ExactArgs(1),
		Long: "Compare what an agent would say of up to 50 assets, the greatest expected result after costs first. No\n" +
			"signal is stored.",
		Example: "  agentsignal scan trading --asset BTC,ETH,SOL --strategy breakout",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			job, err := c.StartScan(cmd.Context(), args[0], in)
			if err == nil {
				job, err = c.AwaitJob(cmd.Context(), job.ID)
			}
			if err != nil {
				return remote.Explain(err)
			}
			if job.Error != nil {
				return fmt.Errorf("the scan failed (%s): %s", clean(job.Error.Code), clean(job.Error.Message))
			}
			result, err := job.Scan()
			if err != nil {
				return err
			}
			return printScan(p, result)
		},
	}
	c.Flags().StringSliceVar(&in.Assets, "asset", nil, "the assets, with commas between them; may be given again")
	c.Flags().StringVar(&in.Strategy, "strategy", "", "a strategy of the agent")
	workFlags(c, &in.Timeframe, &in.Risk)
	c.MarkFlagRequired("asset")
	c.MarkFlagRequired("strategy")
	s.add(c, dataDir)
	return c
}

// printScan prints the result of a scan.
func printScan(p *printer, r *client.ScanResult) error {
	if p.form == formJSON {
		return p.JSON(r.Raw())
	}
	var rows [][]any
	for _, x := range r.Ranked {
		among := []*float64{x.Entry, x.Stop, x.Target}
		rows = append(rows, []any{x.Asset, direction(x.Direction), share{&x.Confidence}, multiple{x.ExpectedRNet},
			share{x.Strength}, price{x.Entry, x.Asset, among}, price{x.Stop, x.Asset, among}, price{x.Target, x.Asset, among}})
	}
	err := p.table([]string{"asset", "direction", "confidence", "expected_r_net", "strength", "entry_price", "stop_loss",
		"take_profit"}, rows)
	for _, x := range r.NoSignal {
		p.note("%s: no signal: %s", x.Asset, x.Reason)
	}
	for _, x := range r.Errors {
		p.note("%s: %s", x.Asset, x.Code)
	}
	return err
}
