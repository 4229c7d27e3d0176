package terminal

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/chartalert"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

// agentColumns are the columns of lists of agents.
var agentColumns = []column[client.Agent]{
	{"id", func(a *client.Agent) any { return a.ID }},
	{"owner", func(a *client.Agent) any { return a.Owner }},
	{"category", func(a *client.Agent) any { return a.Category }},
	{"status", func(a *client.Agent) any { return a.Status }},
	{"strategies", func(a *client.Agent) any { return strings.Join(a.Strategies, ",") }},
	{"name", func(a *client.Agent) any { return a.Name }},
}

func agentCommand(dataDir func() (string, error)) *cobra.Command {
	c := &cobra.Command{Use: "agent", Short: "Manage agents of your own"}
	c.AddCommand(agentCreate(), agentList(dataDir), agentRemove())
	return c
}

func agentCreate() *cobra.Command {
	var login signIn
	var output outputFlags
	var in client.NewAgent
	var defaults client.AgentDefaults
	var levels levelFlags
	var endpoint string
	c := &cobra.Command{
		Use: "create ID", Short: "Register an agent of your own", Args: cobra.ExactArgs(1),
		Long: "Register an agent of your own: a program or a person that submits what it has concluded by\n" +
			"agentsignal submit or the API, or a program at an endpoint, which the service asks when the agent is run. Its\n" +
			"id is 3 to 32 lower-case letters, digits and _, and is never free again. --stop, --target, --timeframe, --risk\n" +
			"and --expires-in are what a signal has that is submitted without.\n\n" + signInHelp,
		Example: "  agentsignal agent create my_agent --name 'My agent' --category trading --strategy cross \\\n" +
			"    --strategy reversal --stop 1.5% --target 2R --email me@example.com",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			p, err := output.printer(cmd.OutOrStdout())
			if err != nil {
				return err
			}
			if defaults.Stop, defaults.Target, err = levels.read(); err != nil {
				return err
			}
			in.ID, in.Defaults = args[0], &defaults
			if endpoint != "" {
				in.Endpoint = &client.AgentEndpoint{URL: endpoint}
			}
			return login.as(cmd, func(user *client.Client) error {
				made, err := user.CreateAgent(cmd.Context(), in)
				if err != nil {
					return remote.Explain(err)
				}
				if p.form != formText {
					if p.form == formCSV && made.Endpoint != nil {
						fmt.Fprintf(cmd.ErrOrStderr(), "The secret of its endpoint, which is shown this once, is %s\n",
							made.Endpoint.Secret)
					}
					return one(p, agentColumns, made)
				}
				if made.Endpoint != nil {
					p.note("The secret of its endpoint, which is shown this once, is %s", made.Endpoint.Secret)
				}
				return list(p, "agents", agentColumns, []*client.Agent{made})
			})
		},
	}
	c.Flags().StringVar(&in.Name, "name", "", "its name, for people")
	c.Flags().StringVar(&in.Category, "category", "", "trading, weather or content")
	c.Flags().StringSliceVar(&in.Strategies, "strategy", nil, "a strategy of it; give it again for more")
	c.Flags().StringVar(&in.Description, "description", "", "what it does, for people")
	c.Flags().StringVar(&endpoint, "endpoint", "", "URL at which the service asks it for a signal when it is run")
	levels.add(c)
	workFlags(c, &defaults.Timeframe, &defaults.Risk)
	expiryFlag(c, &defaults.ExpiresIn)
	c.MarkFlagRequired("name")
	c.MarkFlagRequired("category")
	c.MarkFlagRequired("strategy")
	login.add(c)
	output.add(c)
	return c
}

func agentList(dataDir func() (string, error)) *cobra.Command {
	var s session
	c := &cobra.Command{
		Use: "list", Short: "List the agents of the service and your own", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			all, err := c.Agents(cmd.Context())
			if err != nil {
				return remote.Explain(err)
			}
			return list(p, "agents", agentColumns, all)
		},
	}
	s.add(c, dataDir)
	return c
}

func agentRemove() *cobra.Command {
	var login signIn
	c := &cobra.Command{
		Use: "remove ID", Short: "Remove an agent of your own", Args: cobra.ExactArgs(1),
		Long: "Remove an agent of your own. Its open signals live on to their end, all of its signals stay, and its id is\n" +
			"never free again.\n\n" + signInHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			return login.as(cmd, func(user *client.Client) error {
				return remote.Explain(user.RemoveAgent(cmd.Context(), args[0]))
			})
		},
	}
	login.add(c)
	return c
}

func submitCommand(dataDir func() (string, error)) *cobra.Command {
	var s session
	var in client.Submission
	var levels levelFlags
	var params []string
	var claim float64
	c := &cobra.Command{
		Use: "submit AGENT ASSET [long|short]", Short: "Submit a signal of an agent of your own", Args: cobra.RangeArgs(2, 3),
		Long: "Submit a signal of an agent of your own. The service enters at its own price, watches the signal until it\n" +
			"closes, and sends it to streams and webhooks. Agents of category trading give a direction, those of category\n" +
			"content --content, and those of category weather --outlook.\n\n" +
			"A stop or a target is a price (65000) or a distance from the entry: 1.5%, 2atr (average true ranges of the\n" +
			"timeframe), or for a target 2R (twice the distance of the stop). What is left out is that of the agent, or else\n" +
			"of the risk.",
		Example: "  agentsignal submit my_agent BTC long --strategy cross --stop 1.5% --target 2R\n" +
			"  agentsignal submit my_texts 'standing desk' --strategy notes --content - < text.md",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			in.Asset, in.Direction = args[1], strings.Join(args[2:], "")
			if in.Stop, in.Target, err = levels.read(); err != nil {
				return err
			}
			if in.Parameters, err = parseParameters(params); err != nil {
				return err
			}
			if cmd.Flags().Changed("confidence") {
				in.Confidence = &claim
			}
			for flag, text := range map[string]*string{"content": &in.Content, "outlook": &in.Outlook} {
				if *text, err = textOf(cmd, *text); err != nil {
					return fmt.Errorf("--%s: %w", flag, err)
				}
			}
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			made, err := c.Submit(cmd.Context(), args[0], in)
			if err != nil {
				return remote.Explain(err)
			}
			if p.form != formText {
				return one(p, signalColumns, made)
			}
			return printSignal(p, made, nil)
		},
	}
	c.Flags().StringVar(&in.Strategy, "strategy", "", "a strategy of the agent")
	levels.add(c)
	workFlags(c, &in.Timeframe, &in.Risk)
	expiryFlag(c, &in.ExpiresIn)
	c.Flags().Float64Var(&claim, "confidence", 0, "the agent's own probability of a profit, 0 to 1")
	c.Flags().Float64Var(&in.Price, "price", 0, "what the agent saw: the signal is refused if the market has moved away from it")
	c.Flags().StringSliceVar(&in.Indicators, "indicator", nil, "what the agent has looked at; give it again for more")
	c.Flags().StringVar(&in.Reasoning, "reasoning", "", "why, in words")
	c.Flags().StringArrayVar(&params, "param", nil,
		"a parameter, name=value, that is kept with the signal; a value may be JSON, and a name that is given again has a list")
	c.Flags().StringVar(&in.Reference, "reference", "",
		"the agent's own id of this decision: with the same one, no second signal is made")
	c.Flags().StringVar(&in.Content, "content", "", "the text of a signal of category content, - for standard input")
	c.Flags().StringVar(&in.Outlook, "outlook", "", "the text of a signal of category weather, - for standard input")
	c.MarkFlagRequired("strategy")
	c.MarkFlagsMutuallyExclusive("content", "outlook")
	s.add(c, dataDir)
	return c
}

func closeCommand(dataDir func() (string, error)) *cobra.Command {
	var s session
	c := &cobra.Command{
		Use: "close SIGNAL_ID", Short: "Close a signal of an agent of your own", Args: cobra.ExactArgs(1),
		Long: "Close a signal of an agent of your own at the first price after now. One that is closed stays as it is.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			closed, err := c.CloseSignal(cmd.Context(), args[0])
			if err != nil {
				return remote.Explain(err)
			}
			if p.form != formText {
				return one(p, signalColumns, closed)
			}
			if err := printSignal(p, closed, nil); err != nil {
				return err
			}
			if closed.Status == "open" {
				p.note("It closes at the next price, and there has been none yet: agentsignal signal show %s", closed.ID)
			}
			return nil
		},
	}
	s.add(c, dataDir)
	return c
}

// levelFlags are the flags of the levels of a signal.
type levelFlags struct{ stop, target string }

func (f *levelFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.stop, "stop", "", "the stop: a price, or a distance such as 1.5% or 2atr")
	c.Flags().StringVar(&f.target, "target", "", "the target: a price, or a distance such as 3%, 2atr or 2R")
}

// read returns the levels.
func (f *levelFlags) read() (stop, target client.Level, err error) {
	for _, l := range []struct {
		name, text string
		level      *client.Level
	}{{"--stop", f.stop, &stop}, {"--target", f.target, &target}} {
		if l.text == "" {
			continue
		}
		level, err := chartalert.ParseLevel(l.name, l.text)
		if err != nil {
			return nil, nil, err
		}
		*l.level = client.Level{string(level.Unit): level.Value}
	}
	return stop, target, nil
}

// expiryFlag adds the time after which a signal expires.
func expiryFlag(c *cobra.Command, seconds *int64) {
	c.Flags().Int64Var(seconds, "expires-in", 0, "seconds until the signal expires, 60 to 3888000; by the timeframe if left out")
}

// maxTextBytes limits a text from standard input. The service allows 20,000 characters.
const maxTextBytes = 1 << 20

// textOf returns a text, or standard input for "-".
func textOf(cmd *cobra.Command, text string) (string, error) {
	if text != "-" {
		return text, nil
	}
	read, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxTextBytes+1))
	if err == nil && len(read) > maxTextBytes {
		err = fmt.Errorf("standard input has more than %d bytes", maxTextBytes)
	}
	return string(read), err
}
