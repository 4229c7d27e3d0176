package e2e

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

// TryDocumentedRequests sends the requests and the messages of the documents: all must succeed unchanged.
func TryDocumentedRequests(t *testing.T, demo *Client, password string) {
	t.Helper()
	n, messages, handshakes := 0, 0, 0
	live := demo.Dial()
	person, made := demo.With(demo.Login("demo@example.com", password).Access), ""
	var intake struct {
		ID    string `json:"intake_id"`
		Token string
	}
	for _, line := range commandtest.Documented(t, "../../../..") {
		if strings.HasPrefix(line, `{"action": `) {
			messages++
			live.Send(line)
			ref := Decode[struct{ Ref string }](t, line).Ref
			live.Await("the answer to "+line, func(m Message) bool {
				return m.Type == "subscribed" && Decode[struct{ Ref string }](t, string(m.Data)).Ref == ref
			})
		}
		if query, ok := strings.CutPrefix(line, "ws://localhost:8080"); ok {
			handshakes++
			begun, answer, err := demo.connect(query, http.Header{"Authorization": {"Bearer " + demo.Token}})
			if err != nil {
				t.Fatalf("%s: %v, %v", line, err, answer)
			}
			begun.Await("the subscription of "+line, func(m Message) bool { return m.Type == "subscribed" })
		}
		if !strings.HasPrefix(line, "curl ") {
			continue
		}
		n++
		path := curlPath.FindStringSubmatch(line)[1]
		body := curlBody.FindStringSubmatch(line)
		path = strings.NewReplacer("INTAKE_TOKEN", intake.Token, "INTAKE_ID", intake.ID).Replace(path)
		switch {
		case strings.HasSuffix(path, "/intakes"):
			body := person.Post(path, "").Want(t, http.StatusCreated).Body
			intake = Decode[struct {
				ID    string `json:"intake_id"`
				Token string
			}](t, body)
		case strings.HasPrefix(path, "/v1/intake/"):
			if a := demo.Do(http.MethodPost, path, body[1], "Content-Type: text/plain"); a.Status != http.StatusAccepted {
				a.Ok(t) // a slow machine queues it
			}
		case strings.Contains(line, "-X DELETE"):
			person.Do(http.MethodDelete, path, "").Ok(t)
		case strings.HasSuffix(path, "/batch"):
			person.Post(path, body[1]).Ok(t)
		case strings.Contains(line, "$TOKEN") && body == nil:
			person.Get(path).Ok(t)
		case strings.Contains(line, "-X PATCH"):
			person.Do(http.MethodPatch, path, body[1]).Ok(t)
		case strings.Contains(line, "-X PUT"):
			person.Do(http.MethodPut, path, body[1]).Ok(t)
		case strings.Contains(line, "$TOKEN"):
			person.Post(path, body[1]).Want(t, http.StatusCreated)
		case strings.Contains(line, "-X POST"):
			demo.Post(strings.ReplaceAll(path, "SIGNAL_ID", made), "").Ok(t)
		case strings.HasSuffix(path, "/signals") && body != nil:
			made = Decode[WireSignal](t, demo.Post(path, body[1]).Ok(t).Body).ID
		case body != nil:
			demo.Post(path, body[1]).Ok(t)
		default:
			demo.Get(path).Ok(t)
		}
	}
	if n < 8+8+7 || messages < 1 || handshakes < 2 {
		t.Errorf("only %d requests, %d messages and %d handshakes were found", n, messages, handshakes)
	}
}
