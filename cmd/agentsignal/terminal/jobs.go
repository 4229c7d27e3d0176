package terminal

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

// jobColumns are the columns of lists of jobs.
var jobColumns = []column[client.Job]{
	{"created_at", func(j *client.Job) any { return j.CreatedAt }},
	{"job_id", func(j *client.Job) any { return j.ID }},
	{"kind", func(j *client.Job) any {
		if j.Kind == "" {
			return "run"
		}
		return j.Kind
	}},
	{"agent_id", func(j *client.Job) any { return j.Agent }},
	{"asset", func(j *client.Job) any {
		if j.Assets != nil {
			return strings.Join(j.Assets, ",")
		}
		return j.Asset
	}},
	{"strategy", func(j *client.Job) any { return j.Strategy }},
	{"timeframe", func(j *client.Job) any { return j.Timeframe }},
	{"status", func(j *client.Job) any { return j.Status }},
	{"completed_at", func(j *client.Job) any { return j.CompletedAt }},
	{"outcome", func(j *client.Job) any {
		switch {
		case j.Error != nil:
			return j.Error.Code + ": " + j.Error.Message
		case j.Signal != nil:
			return j.Signal.ID
		}
		return j.Reason
	}},
}

func jobsCommand(dataDir func() (string, error)) *cobra.Command {
	var s session
	var status string
	var limit int
	c := &cobra.Command{
		Use: "jobs [JOB_ID]", Short: "List jobs, the newest first, or show one", Args: cobra.MaximumNArgs(1),
		Long: "List jobs, the newest first, or show one: runs, scans and backtests that were started without waiting for\n" +
			"them. With --output json a job has its result.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, p, err := s.begin(cmd)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				j, err := c.Job(cmd.Context(), args[0])
				if err != nil {
					return remote.Explain(err)
				}
				return printJob(p, j)
			}
			all, err := client.Collect(c.Jobs(cmd.Context(), status, limit))
			if err != nil {
				return remote.Explain(err)
			}
			return list(p, "jobs", jobColumns, all)
		},
	}
	c.Flags().StringVar(&status, "status", "", "only queued, running, completed or error")
	limitFlag(c, &limit)
	s.add(c, dataDir)
	return c
}

// printJob prints a job.
func printJob(p *printer, j *client.Job) error {
	if p.form != formText {
		return one(p, jobColumns, j)
	}
	if err := list(p, "jobs", jobColumns, []*client.Job{j}); err != nil {
		return err
	}
	if j.Kind == "scan" && len(j.Result) > 0 && j.Status == "completed" {
		r, err := j.Scan()
		if err != nil {
			return err
		}
		p.note("")
		return printScan(p, r)
	}
	return nil
}
