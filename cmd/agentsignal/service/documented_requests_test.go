package service

import (
	"regexp"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

var (
	curlPath = regexp.MustCompile(`localhost:8080([^\s']+)`)
	curlBody = regexp.MustCompile(`-d '([^']+)'`)
)

// tryDocumentedRequests sends the requests of README: all must succeed unchanged.
func tryDocumentedRequests(t *testing.T, demo *client) {
	t.Helper()
	n := 0
	for _, line := range commandtest.Documented(t, "../../..") {
		if !strings.HasPrefix(line, "curl ") {
			continue
		}
		n++
		path := curlPath.FindStringSubmatch(line)[1]
		if body := curlBody.FindStringSubmatch(line); body != nil {
			demo.post(path, body[1]).ok(t)
		} else {
			demo.get(path).ok(t)
		}
	}
	if n < 8 {
		t.Errorf("only %d requests were found", n)
	}
}
