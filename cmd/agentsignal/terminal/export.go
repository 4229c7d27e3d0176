package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/remote"
)

func exportCommand(dataDir func() (string, error)) *cobra.Command {
	var s session
	var f filterFlags
	var file string
	c := &cobra.Command{
		Use: "export", Short: "Write all signals that match, as CSV or as JSON", Args: cobra.NoArgs,
		Long: "Write all signals that match, the newest first, with all their members: as CSV, or by --output json as\n" +
			"JSON objects, one a line.",
		Example: "  agentsignal export --status closed --file closed.csv",
		RunE: func(cmd *cobra.Command, _ []string) error {
			format := "csv"
			if cmd.Flags().Changed("output") || s.output.jq != "" {
				format = map[string]string{formCSV: "csv", formJSON: "jsonl"}[s.output.form]
			}
			if format == "" || s.output.jq != "" || s.output.utc {
				return errors.New("export writes csv or json as the service has it: without --jq and --utc")
			}
			q, err := f.query()
			if err != nil {
				return err
			}
			c, _, err := s.begin(cmd)
			if err != nil {
				return err
			}
			return toFile(file, cmd.OutOrStdout(), func(out io.Writer) error {
				_, err := c.Export(cmd.Context(), q, format, out)
				if err != nil {
					return fmt.Errorf("the export is not complete: %w", remote.Explain(err))
				}
				return nil
			})
		},
	}
	f.add(c)
	c.Flags().StringVar(&file, "file", "", "file to write, which must not exist; standard output if left out")
	s.add(c, dataDir)
	for _, name := range []string{"jq", "utc"} {
		c.Flags().Lookup(name).Hidden = true
	}
	c.Flags().Lookup("output").Usage, c.Flags().Lookup("output").DefValue = "form of the output: csv or json", formCSV
	return c
}

// toFile runs write with a new file, or with standard output if there is no name. A file that is not
// complete is removed.
func toFile(name string, standard io.Writer, write func(io.Writer) error) error {
	if name == "" {
		return write(standard)
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("--file: %w", err)
	}
	buffered := bufio.NewWriterSize(file, 1<<16)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}
