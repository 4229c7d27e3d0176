package deliveries

import (
	"embed"

	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

//go:embed scripts
var scripts embed.FS

// Store keeps webhooks, their deliveries and the mails about them, each part for those who use it. What only the
// owner of a partition may do takes its epoch, and is refused with KindConflict, "not_owner", under another one.
// KindUnavailable: it is not known whether a change was made. All methods are safe for concurrent use.
type Store struct {
	Settings  *Settings
	Queue     *Queue
	History   *History
	Changes   *Changes
	Mails     *Mails
	Retention *Retention
	Stats     *Stats
}

// New returns the webhooks of c. Changes are written by l.
func New(c *redisclient.Client, l *eventlog.Log) *Store {
	queue, history := &Queue{c, l}, &History{c, make(chan struct{}, maxScans)}
	return &Store{Settings: &Settings{c, l}, Queue: queue, History: history, Changes: &Changes{c, l, history},
		Mails: &Mails{c, l}, Retention: &Retention{c}, Stats: &Stats{c, queue}}
}
