package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/record/verify"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/export"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
	"github.com/agentsignal/agentsignal/http/client"
)

// exitUnsupported is the exit code of a record that holds, but that nothing outside supports.
const exitUnsupported = 3

// recordCheck is verify record.
type recordCheck struct {
	keys        publicKeys
	url         string
	since       []string
	witnesses   []string
	scorecard   string
	maxAge      time.Duration
	unwitnessed bool
	simulated   bool
}

func verifyRecord() *cobra.Command {
	v := &recordCheck{}
	c := &cobra.Command{
		Use: "record EXPORT", Short: "Check the record of an account: each signal, that none is missing, the scorecard",
		Args: cobra.ExactArgs(1),
		Long: "EXPORT is a file that agentsignal record export has written; - is standard input. It is read\n" +
			"line by line: 100,000 signals take 130 MiB of memory. A scorecard is the answer of\n" +
			"GET /v1/scorecard without parameters that is older than the checkpoint of the export, as\n" +
			"agentsignal record export --scorecard writes it: each figure, also of the skill of agents,\n" +
			"is computed again from what was recorded, except for those after costs, because costs are a setting.\n\n" +
			"The report has what is proved, who besides the service stands behind the times, and what is\n" +
			"the word of the operator alone. Without a checkpoint that you have kept (--since), or that a\n" +
			"witness has signed whom you trust (--witness), a record could have been made up today.\n\n" +
			record.Limits + "\n\n" + command.ExitCodes + "\n" +
			"3 it holds, but nothing outside stands behind the times, or its prices are simulated.",
		Example: "  agentsignal verify record --key @service.pub record.jsonl --since october.note --url https://signals.example",
		RunE:    func(cmd *cobra.Command, args []string) error { return v.run(cmd, args[0]) },
	}
	v.keys.add(c)
	f := c.Flags()
	f.StringArrayVar(&v.since, "since", nil, "file with a checkpoint that you have kept; repeat it for several")
	f.StringArrayVar(&v.witnesses, "witness", nil,
		"public key, NAME+HASH+BASE64, of a witness whom you trust; repeat it for several")
	f.StringVar(&v.url, "url", "", "address of the service: its public tiles prove --since where the export does not")
	f.StringVar(&v.scorecard, "scorecard", "", "file with the account's scorecard")
	f.DurationVar(&v.maxAge, "max-age", 0, "how old the checkpoint may be, such as 1h; 0: any age")
	f.BoolVar(&v.unwitnessed, "allow-unwitnessed", false, "end with 0 although nothing outside stands behind the times")
	f.BoolVar(&v.simulated, "allow-simulated", false, "end with 0 although prices are simulated")
	return c
}

// reader reads what the flags give.
func (v *recordCheck) reader(cmd *cobra.Command) (r export.Reader, err error) {
	if r.Keys, err = export.ParseKeys(v.keys.given); err != nil {
		return r, err
	}
	if r.Kept, err = readFiles(cmd, v.since...); err != nil {
		return r, err
	}
	for _, key := range v.witnesses {
		w, err := record.ParseWitness(key)
		if err != nil {
			return r, fmt.Errorf("--witness: %.80q is not a public key of the form NAME+HASH+BASE64", key)
		}
		if slices.ContainsFunc(r.Keys, func(k note.Verifier) bool { return k.Name() == w.Name() && k.KeyHash() == w.KeyHash() }) {
			return r, fmt.Errorf("--witness: %.80q is a key of the service itself", key)
		}
		r.Witnesses = append(r.Witnesses, w)
	}
	if v.url != "" {
		address, err := client.ParseAddress(v.url)
		if err != nil {
			return r, fmt.Errorf("--url: %w", err)
		}
		public := client.New(address, "")
		public.Attempts, public.MaxPause = recordAttempts, recordPause
		r.Public = public
	}
	return r, nil
}

func (v *recordCheck) run(cmd *cobra.Command, file string) error {
	by, err := v.reader(cmd)
	if err != nil {
		return err
	}
	cards, err := readFiles(cmd, v.scorecard)
	if err != nil {
		return err
	}
	in, out := cmd.InOrStdin(), cmd.OutOrStdout()
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	r, err := export.Check(cmd.Context(), in, by, out)
	if err != nil {
		return found(remote.Explain(err))
	}
	if age := time.Since(r.Checkpoint.At); v.maxAge > 0 && age > v.maxAge {
		return found(fmt.Errorf("%w: the checkpoint is %s old, and --max-age is %s", verify.ErrOlder,
			age.Round(time.Second), v.maxAge))
	}
	fmt.Fprintln(out, "proved:")
	printRecord(out, r)
	if cards[0] != nil {
		card, err := r.Card(cards[0])
		if err != nil {
			return found(err)
		}
		printCard(out, card)
	}
	fmt.Fprintln(out, "who besides the service stands behind the times:")
	printEvidence(out, r)
	fmt.Fprintln(out, "the word of the operator alone:")
	printUnproved(out, r)
	if err := v.unsupported(r); err != nil {
		return &command.Exit{Code: exitUnsupported, Err: err}
	}
	fmt.Fprintln(out, "verified")
	return nil
}

// unsupported returns why a record that holds proves less than it seems to.
func (v *recordCheck) unsupported(r *export.Record) error {
	var why []error
	if len(r.Evidence) == 0 && !v.unwitnessed {
		why = append(why, errors.New("the record is consistent with itself, and nothing outside stands behind its times: "+
			"give --since or --witness, or accept that by --allow-unwitnessed"))
	}
	if len(r.Evidence) > 0 && r.Closed > 0 && r.CommittedOutside == 0 && !v.unwitnessed {
		why = append(why, errors.New("none of the closed signals was in a checkpoint of --since or --witness before it "+
			"ended, so nothing shows that its forecast came first: keep a checkpoint for longer, or accept that by "+
			"--allow-unwitnessed"))
	}
	if n := r.Simulated(); n > 0 && !v.simulated {
		why = append(why, fmt.Errorf("%d of %d signals have simulated prices: accept that by --allow-simulated",
			n, r.Signals))
	}
	return errors.Join(why...)
}

func printRecord(w io.Writer, r *export.Record) {
	printCheckpoint(w, "  checkpoint", r.Checkpoint)
	fmt.Fprintf(w, "  %d signals: all that the account had created up to its newest entry, of %s\n", r.Signals, stamp(r.Last))
	fmt.Fprintf(w, "  %d closed signals: all there were then; %d were open\n", r.Closed, r.Signals-r.Closed)
	fmt.Fprintf(w, "  the account has %d of the service's %d leaves; it is one of %d accounts with leaves, %d of them erased\n",
		r.Leaves, r.Checkpoint.Size(), r.Checkpoint.Accounts, r.Checkpoint.Erased)
	for _, a := range r.Gone {
		fmt.Fprintf(w, "  erased accounts had %d signals of the agent %s: %d won and %d lost\n", a.Signals,
			command.Printable(a.Agent), a.Won, a.Lost)
	}
	if r.Before > 0 {
		fmt.Fprintf(w, "  %d older signals are not shown: all were older than the retention of %s; "+
			"the first shown one is of %s\n",
			r.Before, r.Checkpoint.Retention, stamp(r.First))
	}
}

func printCard(w io.Writer, c *export.Card) {
	of := ""
	if c.Count < c.Results {
		of = fmt.Sprintf("; the record has %d later ones", c.Results-c.Count)
	}
	fmt.Fprintf(w, "  the scorecard is that of the first %d closed signals with prices%s\n", c.Count, of)
	if c.Count > 0 {
		fmt.Fprintf(w, "  %d won and %d did not, mean %.4f R before costs; costs of %.4f R a signal are a setting, "+
			"not recorded\n", c.Wins, c.Count-c.Wins, float64(c.MeanR), c.Costs)
		fmt.Fprintf(w, "  %d of them were in a checkpoint of the service before they ended; the closings of %d had no leaf yet\n",
			c.Committed, c.Count-c.Recorded)
	}
}

func printEvidence(w io.Writer, r *export.Record) {
	for _, e := range r.Evidence {
		by := "you kept"
		if e.By != "" {
			by = "witness " + command.Printable(e.By) + " signed"
		}
		fmt.Fprintf(w, "  %s the checkpoint of %s, with %d leaves", by, stamp(e.Checkpoint.At), e.Checkpoint.Size())
		if !e.Seen.IsZero() {
			fmt.Fprintf(w, ", at %s by its own clock", stamp(e.Seen))
		}
		fmt.Fprintln(w)
	}
	if len(r.Evidence) == 0 {
		fmt.Fprintln(w, "  no one")
		return
	}
	fmt.Fprintf(w, "  %d of %d signals were created after the oldest of these\n", r.Later, r.Signals)
	fmt.Fprintf(w, "  %d of %d closed signals were in one of these before they ended\n", r.CommittedOutside, r.Closed)
}

func printUnproved(w io.Writer, r *export.Record) {
	fmt.Fprintf(w, "  %d of %d closed signals were in a checkpoint before they ended\n", r.Committed, r.Closed)
	for _, o := range slices.SortedFunc(maps.Keys(r.Origins), func(a, b export.Origin) int {
		return int(r.Origins[b] - r.Origins[a])
	}) {
		fmt.Fprintf(w, "  the prices of %d signals (%.0f %%): %s\n", r.Origins[o],
			100*float64(r.Origins[o])/float64(max(r.Signals, 1)), command.Printable(o.String()))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Unproved)) {
		fmt.Fprintf(w, "  not proved: %s of %d signals\n", command.Printable(name), r.Unproved[name])
	}
	fmt.Fprintln(w, "  that no other account and no other service ran whose results were kept back")
}
