package service

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/commandtest"
)

var (
	curlPath = regexp.MustCompile(`localhost:8080([^\s']+)`)
	curlBody = regexp.MustCompile(`-d '([^']+)'`)
)

// tryDocumentedRequests sends the requests and the messages of the documents: all must succeed unchanged.
func tryDocumentedRequests(t *testing.T, demo *client) {
	t.Helper()
	n, messages, handshakes := 0, 0, 0
	live := demo.dial()
	for _, line := range commandtest.Documented(t, "../../..") {
		if strings.HasPrefix(line, `{"action": `) {
			messages++
			live.send(line)
			ref := decode[struct{ Ref string }](t, line).Ref
			live.await("the answer to "+line, func(m message) bool {
				return m.Type == "subscribed" && decode[struct{ Ref string }](t, string(m.Data)).Ref == ref
			})
		}
		if query, ok := strings.CutPrefix(line, "ws://localhost:8080"); ok {
			handshakes++
			begun, answer, err := demo.connect(query, http.Header{"Authorization": {"Bearer " + demo.token}})
			if err != nil {
				t.Fatalf("%s: %v, %v", line, err, answer)
			}
			begun.await("the subscription of "+line, func(m message) bool { return m.Type == "subscribed" })
		}
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
	if n < 8+5 || messages < 1 || handshakes < 2 {
		t.Errorf("only %d requests, %d messages and %d handshakes were found", n, messages, handshakes)
	}
}
