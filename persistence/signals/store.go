package signals

import "github.com/agentsignal/agentsignal/persistence/eventlog"

// Store has all readers of signals and of the runs whose end is due, for who needs several.
type Store struct {
	*eventlog.Store
	*Records
	*Open
	*Lists
	*Outcomes
	*Slopes
	*Runs
	*Compactor
}

// New returns the signals of the logs of l.
func New(l *eventlog.Store) *Store {
	p := passes{l}
	return &Store{l, &Records{p}, &Open{l}, &Lists{p}, &Outcomes{p}, &Slopes{p}, &Runs{l.Client},
		&Compactor{passes: p, blockEntries: BlockEntries}}
}
