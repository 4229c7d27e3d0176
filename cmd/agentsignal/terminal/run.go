package terminal

import (
	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

func runCommand(dataDir func() (string, error)) *cobra.Command {
	var s session
	var in client.RunRequest
	var params []string
	var async bool
	c := &cobra.Command{
		Use: "run AGENT", Short: "Run an agent, which makes a signal", Args: cobra.ExactArgs(1),
		Long: "Run an agent: trading, weather, seo, or one of your own that has an endpoint. The signal is stored, watched\n" +
			"until it closes, and sent to streams and webhooks.",
		Example: "  agentsignal run trading --asset BTC --strategy momentum --timeframe 1h\n" +
			"  agentsignal run weather --asset natural_gas --strategy energy_demand --param region=us\n" +
			"  agentsignal run seo --asset 'standing desk' --strategy blog_post --param 'keywords=[\"oak\"]'",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if in.Parameters, err = parseParameters(params); err != nil {
				return err
			}
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			if async {
				job, err := c.StartRun(cmd.Context(), args[0], in)
				if err != nil {
					return remote.Explain(err)
				}
				return printJob(p, job)
			}
			made, err := c.Run(cmd.Context(), args[0], in)
			if err != nil {
				return remote.Explain(err)
			}
			if p.form != formText {
				return one(p, signalColumns, made)
			}
			return printSignal(p, made, nil)
		},
	}
	c.Flags().StringVar(&in.Asset, "asset", "", "the asset, or the subject of a text")
	c.Flags().StringVar(&in.Strategy, "strategy", "", "a strategy of the agent")
	workFlags(c, &in.Timeframe, &in.Risk)
	c.Flags().StringArrayVar(&params, "param", nil,
		"a parameter, name=value; a value may be JSON, and a name that is given again has a list")
	c.Flags().BoolVar(&async, "async", false, "print the job, and do not wait for the signal")
	c.MarkFlagRequired("asset")
	c.MarkFlagRequired("strategy")
	s.add(c, dataDir)
	return c
}

// workFlags adds the flags of runs and scans.
func workFlags(c *cobra.Command, timeframe, risk *string) {
	c.Flags().StringVar(timeframe, "timeframe", "", "1m, 5m, 1h or 1d; 1h if left out")
	c.Flags().StringVar(risk, "risk", "", "low, medium or high; medium if left out")
}
