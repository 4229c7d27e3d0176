package main

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// documented returns the lines of code blocks in the documents for users.
func documented(t *testing.T) []string {
	t.Helper()
	var lines []string
	for _, file := range []string{"../../README.md", "../../deploy/WEBHOOKS.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for line := range strings.Lines(string(text)) {
			switch line = strings.TrimSpace(line); {
			case strings.HasPrefix(line, "```"):
				code = !code
			case code:
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// TestDocumentedCommands: each command of the documents exists, with its flags.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	n := 0
	for _, line := range documented(t) {
		line, _, _ = strings.Cut(line, " #")
		args := strings.Fields(strings.TrimPrefix(line, "bin/"))
		if len(args) < 2 || args[0] != "agentsignal" {
			continue
		}
		n++
		cmd, rest, err := newRoot(nil).Find(args[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err != nil || !cmd.Runnable() || len(cmd.Flags().Args()) > 0 {
			t.Errorf("%s: %v, left over %q", line, err, cmd.Flags().Args())
		}
	}
	if n < 8 {
		t.Errorf("only %d commands were found", n)
	}
}

var (
	curlPath = regexp.MustCompile(`localhost:8080([^\s']+)`)
	curlBody = regexp.MustCompile(`-d '([^']+)'`)
)

// tryDocumentedRequests sends the requests of README: all must succeed as they stand.
func tryDocumentedRequests(t *testing.T, demo *client) {
	t.Helper()
	n := 0
	for _, line := range documented(t) {
		if !strings.HasPrefix(line, "curl ") {
			continue
		}
		n++
		path := curlPath.FindStringSubmatch(line)[1]
		if body := curlBody.FindStringSubmatch(line); body != nil {
			demo.post(path, body[1]).want(t, http.StatusOK)
		} else {
			demo.get(path).want(t, http.StatusOK)
		}
	}
	if n < 8 {
		t.Errorf("only %d requests were found", n)
	}
}
