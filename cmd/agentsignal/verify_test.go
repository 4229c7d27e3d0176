package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/command"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
	"github.com/agentsignal/agentsignal/cmd/agentsignal/export"
)

// TestExitCodesOfVerify: 1 if it does not verify, 2 if it could not be checked.
func TestExitCodesOfVerify(t *testing.T) {
	t.Parallel()
	s, err := export.NewSample(nil)
	commandtest.Must(t, err)
	s.Add(20)
	var text bytes.Buffer
	commandtest.Must(t, s.Write(&text))
	older, err := s.Checkpoint()
	commandtest.Must(t, err)
	s.Add(5)
	answer, err := s.Consistency(older)
	commandtest.Must(t, err)
	card, err := s.Scorecard(0)
	commandtest.Must(t, err)
	file := func(text []byte) string { return commandtest.Written(t, string(text)) }
	good, key := file(text.Bytes()), "--key="+s.Keys.Public()[0]
	text.Reset()
	s.Earlier = []*record.Signed{older}
	commandtest.Must(t, s.Write(&text))
	grown := file(text.Bytes())
	simulated, err := export.NewSample(nil)
	commandtest.Must(t, err)
	simulated.Source = "simulated"
	simulated.Add(3)
	text.Reset()
	commandtest.Must(t, simulated.Write(&text))
	invented, inventor := file(text.Bytes()), "--key="+simulated.Keys.Public()[0]
	missing := filepath.Join(t.TempDir(), "missing")
	note, newer := file(older.Note), file(answer)
	late, err := export.NewSample(nil) // with a checkpoint that was kept after all had ended
	commandtest.Must(t, err)
	late.Add(20)
	ended, err := late.Checkpoint()
	commandtest.Must(t, err)
	late.Earlier = []*record.Signed{ended}
	text.Reset()
	commandtest.Must(t, late.Write(&text))
	lateText, lateKey, lateNote := file(text.Bytes()), "--key="+late.Keys.Public()[0], file(ended.Note)
	for _, row := range []struct {
		want int
		text string // of the output or the error
		args []string
	}{
		{0, "you kept the checkpoint of 2026-11-01T09:50:00Z, with 39 leaves\n  5 of 25 signals were created after",
			[]string{"record", key, grown, "--since", note}},
		{3, "none of the closed signals was in a checkpoint", []string{"record", lateKey, lateText, "--since", lateNote}},
		{0, "0 of 19 closed signals were in one",
			[]string{"record", lateKey, lateText, "--since", lateNote, "--allow-unwitnessed"}},
		{2, "is a key of the service itself", []string{"record", key, good, "--witness", s.Keys.Public()[0]}},
		{0, "  no one\n", []string{"record", key, good, "--allow-unwitnessed"}},
		{3, "nothing outside stands behind its times", []string{"record", key, good}},
		{3, "3 of 3 signals have simulated prices", []string{"record", inventor, invented, "--allow-unwitnessed"}},
		{3, "nothing outside stands behind", []string{"record", inventor, invented, "--allow-simulated"}},
		{0, "the prices of 3 signals (100 %): simulated in real time",
			[]string{"record", inventor, invented, "--allow-simulated", "--allow-unwitnessed"}},
		{2, "--witness: \"x\" is not a public key", []string{"record", key, good, "--witness", "x"}},
		{0, "begins with all leaves", []string{"consistency", key, note, newer}},
		{0, "GET /v1/log/consistency?from=2", []string{"consistency", key, note}},
		{0, "Exit codes: 0 verified; 1 it does not", []string{"record", "--help"}},
		{1, "the file is cut short", []string{"record", lateKey, file(text.Bytes()[:text.Len()/2])}},
		{1, "an old head", []string{"record", key, good, "--max-age", "1s"}},
		{1, "the scorecard is not that of the record", []string{"record", key, good, "--scorecard", file(card)}},
		{1, "not a checkpoint", []string{"consistency", key, file([]byte("nonsense"))}},
		{2, "give --key", []string{"record", good}},
		{2, "is not a public key", []string{"record", "--key", "x", good}},
		{2, "this is the private key", []string{"record", "--key", "PRIVATE+KEY+a+b+c", good}},
		{2, "no such file", []string{"record", "--key", "@" + missing, good}},
		{2, "no such file", []string{"record", key, missing}},
		{2, "too few arguments", []string{"record", key}},
		{2, "no flag --keys", []string{"record", "--keys", "x", good}},
		{2, "no command", []string{"recrod"}},
		{2, "not that of an export", []string{"record", key, newer}},
		{2, "it is not a scorecard", []string{"record", key, good, "--scorecard", note}},
		{2, "it is not a proof", []string{"signal", key, newer}},
		{2, "it is not a proof", []string{"signal", key, note}},
		{2, "it is not the answer", []string{"consistency", key, note, note}},
		{2, "not an answer of GET /v1/log/consistency", []string{"consistency", key, note, file([]byte("{}"))}},
	} {
		var ran *cobra.Command
		var out bytes.Buffer
		root := newRoot(nil)
		root.SetArgs(append([]string{"verify"}, row.args...))
		root.SetOut(&out)
		ran, err := root.ExecuteContextC(t.Context())
		if err != nil {
			out.WriteString(err.Error())
		}
		if got := command.ExitCode(ran, err); got != row.want || !strings.Contains(out.String(), row.text) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", row.args, got, row.want, row.text, out.String())
		}
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a file was made")
	}
}
