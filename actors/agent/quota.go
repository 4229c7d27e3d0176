package agent

import (
	"sync"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// tooManyRuns returns the error of a run that was not admitted.
func tooManyRuns(message string) *signal.Error {
	return &signal.Error{Kind: signal.KindTooMany, Code: "too_many_runs", Message: message, RetryAfter: time.Second}
}

// quota limits the synchronous runs of an account in this process. A run gives its place
// back before its caller gets the answer, so that a sequential client never reaches the
// limit. Jobs are limited by the length of their queue and by their workers.
type quota struct {
	limit int

	mu   sync.Mutex
	runs map[signal.AccountID]int
}

func newQuota(limit int) *quota { return &quota{limit: limit, runs: make(map[signal.AccountID]int)} }

// take takes a place, and returns false if the account has none left.
func (q *quota) take(account signal.AccountID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.runs[account]
	if n >= q.limit {
		return false
	}
	q.runs[account] = n + 1
	return true
}

func (q *quota) give(account signal.AccountID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.runs[account]; n > 1 {
		q.runs[account] = n - 1
	} else {
		delete(q.runs, account)
	}
}
