package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/http/apitest"
)

// slowRequest is a request whose body is not complete.
type slowRequest struct {
	tb      testing.TB
	conn    net.Conn
	request *http.Request
	body    string
}

// BeginRun sends a run without the end of its body.
func (c *Client) BeginRun(body string) *slowRequest {
	c.TB.Helper()
	conn := RawConn(c.TB, c.URL)
	r, err := http.NewRequest(http.MethodPost, c.URL+"/v1/agents/trading/run", strings.NewReader(body))
	Must(c.TB, err)
	r.Header.Set("Authorization", "Bearer "+c.Token)
	var whole strings.Builder
	Must(c.TB, r.Write(&whole))
	head := strings.TrimSuffix(whole.String(), body)
	if _, err := io.WriteString(conn, head+body[:1]); err != nil {
		c.TB.Fatal(err)
	}
	return &slowRequest{c.TB, conn, r, body}
}

// Finish sends the rest and returns the answer.
func (s *slowRequest) Finish() Answer {
	s.tb.Helper()
	if _, err := io.WriteString(s.conn, s.body[1:]); err != nil {
		s.tb.Fatalf("send the rest: %v", err)
	}
	w, err := http.ReadResponse(bufio.NewReader(s.conn), s.request)
	if err != nil {
		s.tb.Fatalf("read the answer: %v", err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		s.tb.Fatalf("read the answer: %v", err)
	}
	s.request.Body = http.NoBody
	if err := httpCheck(s.tb).Check(apitest.Exchange{Request: s.request, RequestBody: []byte(s.body),
		Status: w.StatusCode, Header: w.Header, Body: text}); err != nil {
		s.tb.Errorf("%v: %s", err, text)
	}
	return Answer{Status: w.StatusCode, Header: w.Header, Body: string(text)}
}

// EndsWithin is more than a service may take to end on a busy machine, and less than it takes if it waits for what
// it should have cancelled.
const EndsWithin = 30 * time.Second
