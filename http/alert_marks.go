package http

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// Limits of what a node remembers of marks.
const (
	maxMarks      = 10_000  // beyond it all are forgotten
	maxMarkLength = 1 << 10 // bytes
)

// alertMarks are the marks that alerts of this node have left. Another node may have left others since: an append that names
// a former one is refused.
type alertMarks struct {
	mu     sync.Mutex
	newest map[string]string // by account and topic
}

// left returns topics with their marks, or false unless alerts of this node have left all of them.
func (m *alertMarks) left(account signal.AccountID, topics []string) (list []signal.AlertTopic, all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range topics {
		mark, ok := m.newest[string(account)+name]
		if !ok {
			return nil, false
		}
		list = append(list, signal.AlertTopic{Name: name, Mark: mark})
	}
	return list, true
}

// remember remembers what an alert has left. created is the signal that it has made.
func (m *alertMarks) remember(account signal.AccountID, a *signal.Alert, created signal.SignalID) {
	mark := a.Mark(created)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newest == nil || len(m.newest) >= maxMarks {
		m.newest = map[string]string{}
	}
	for _, t := range a.Topics {
		if key := string(account) + t.Name; len(mark) <= maxMarkLength {
			m.newest[key] = mark
		} else {
			delete(m.newest, key)
		}
	}
}

// topic returns the name of the topic of a for a strategy.
func (a *alert) topic(strategy string) string {
	return strings.Join([]string{string(a.agent.ID), strategy, a.asset}, "\x00")
}

// repeated returns the answer to the same alert before, if none about the same was accepted since.
func (a *alert) repeated(marks []signal.AlertTopic) (answer string, ok bool) {
	for _, t := range marks {
		mark := strings.SplitN(t.Mark, " ", 4)
		if len(mark) < 4 || mark[1] != a.digest {
			return "", false
		}
		answer = mark[3]
	}
	return answer, answer != ""
}

// outdated reports whether a was queued, and would undo what a later alert about the same has decided: one that opens a signal
// whatever is open undoes nothing.
func (a *alert) outdated(marks []signal.AlertTopic) bool {
	if a.job == nil || a.opens() && a.Position == "" {
		return false
	}
	return slices.ContainsFunc(marks, func(t signal.AlertTopic) bool {
		mark := strings.SplitN(t.Mark, " ", 4)
		received, err := strconv.ParseInt(mark[min(2, len(mark)-1)], 10, 64)
		return err == nil && received > a.received.UnixMilli()
	})
}
