package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

// TestDocumentedCommands: each command of the documents exists, with its flags.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	n := 0
	for _, line := range slices.Concat(commandtest.Documented(t, "../.."), commandtest.Runbook(t, "../..")) {
		line, _, _ = strings.Cut(line, " #")
		line, _, _ = strings.Cut(line, " > ")
		args := strings.Fields(strings.TrimPrefix(line, "bin/"))
		if len(args) < 2 || args[0] != "agentsignal" {
			continue
		}
		n++
		cmd, rest, err := newRoot(nil).Find(args[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil || !cmd.Runnable() {
			t.Errorf("%s: %v", line, err)
		}
	}
	if n < 8+9 {
		t.Errorf("only %d commands were found", n)
	}
}
