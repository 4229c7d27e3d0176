package e2e

import (
	"time"
)

// wireSchedule holds the members of a schedule that tests check.
type wireSchedule struct {
	ID        string     `json:"schedule_id"`
	Status    string     `json:"status"`
	NextRunAt *time.Time `json:"next_run_at"`
	LastRunAt *time.Time `json:"last_run_at"`
	LastError *struct {
		Code    string `json:"error_code"`
		Message string
		At      time.Time
	} `json:"last_error"`
	Failures int
	Skipped  int
}

// AddSchedule makes a schedule.
func (c *Client) AddSchedule(body string) wireSchedule {
	c.TB.Helper()
	return Decode[wireSchedule](c.TB, c.Post("/v1/schedules", body).Ok(c.TB).Body)
}

// AfterRound returns a schedule after its first round.
func (c *Client) AfterRound(id string) (s wireSchedule) {
	c.TB.Helper()
	Eventually(c.TB, "the round is over", func() bool {
		s = c.Schedule(id)
		return s.LastRunAt != nil
	})
	return s
}

// Schedule returns a schedule as the API shows it.
func (c *Client) Schedule(id string) wireSchedule {
	c.TB.Helper()
	return Decode[wireSchedule](c.TB, c.Get("/v1/schedules/"+id).Ok(c.TB).Body)
}

// AfterRounds waits until a schedule has had the given number of rounds.
func (c *Client) AfterRounds(id string, rounds int) {
	c.TB.Helper()
	seen := map[time.Time]bool{}
	Eventually(c.TB, "the schedule runs on", func() bool {
		if next := c.Schedule(id).NextRunAt; next != nil {
			seen[*next] = true
		}
		return len(seen) > rounds
	})
}
