package e2e

import (
	"net/http"
	"testing"
)

// Intake is an intake of alerts as it is made.
type Intake struct {
	ID    string `json:"intake_id"`
	Token string
	URL   string
}

// AddIntake makes an intake of an agent of the client's account.
func AddIntake(tb testing.TB, c *Client, agent string) Intake {
	tb.Helper()
	return Decode[Intake](tb, c.Post("/v1/agents/"+agent+"/intakes", "").Want(tb, http.StatusCreated).Body)
}

// SendAlert sends a text to an intake, as a chart program does: without the client's credential.
func SendAlert(c *Client, in Intake, text string) Answer {
	c.TB.Helper()
	return c.With("").Do("POST", "/v1/intake/"+in.Token, text, "Content-Type: text/plain; charset=utf-8")
}

// IntakeAnswer is the answer to an alert.
type IntakeAnswer struct {
	WireSignal
	Reason string
	Closed []string
}

// IntakeRequest is an item of the list of an intake's requests.
type IntakeRequest struct {
	ReceivedAt string  `json:"received_at"`
	SignalID   *string `json:"signal_id"`
	Status     int
	Understood string
	Reason     string
	Error      *Problem
	Body       string
}

// IntakeRequests returns the requests of an intake, the newest first.
func IntakeRequests(tb testing.TB, c *Client, agent string, in Intake) []IntakeRequest {
	tb.Helper()
	return Decode[struct{ Requests []IntakeRequest }](tb,
		c.Get("/v1/agents/"+agent+"/intakes/"+in.ID+"/requests").Ok(tb).Body).Requests
}
