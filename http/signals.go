package http

import (
	"context"
	"net/http"

	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Catalogue lists the signals of accounts. See catalogue.Catalogue.
type Catalogue interface {
	List(ctx context.Context, q catalogue.Query) (items []signal.Listing, total int, err error)
	// Locations is List for callers that read the records, with pages behind a signal.
	Locations(ctx context.Context, q catalogue.Query, before signal.Location) ([]signal.Location, int, error)
	// Counts returns the number of listed signals by agent.
	Counts(ctx context.Context, account signal.AccountID) (map[signal.AgentID]catalogue.Count, error)
	// SuggestAssets returns the assets that a name in a filter may stand for, if it looks misspelt.
	SuggestAssets(ctx context.Context, account signal.AccountID, name string) []string
	// Find returns the positions at which a signal was created and, if so, closed.
	// KindNotFound.
	Find(ctx context.Context, account signal.AccountID, id signal.SignalID) (created, closed signal.Position, err error)
}

// Signals holds the records of signals. See signals.Store.
type Signals interface {
	SignalByID(ctx context.Context, account signal.AccountID, id signal.SignalID,
		created, closed signal.Position) (*signal.Signal, error)
	// SignalsAt returns the signals at locations, without those that no longer exist.
	SignalsAt(ctx context.Context, account signal.AccountID, at []signal.Location) ([]*signal.Signal, error)
}

// The values of the query parameters of listSignals.
var (
	directions = []signal.Direction{signal.Long, signal.Short}
	statuses   = []signal.Status{signal.Open, signal.Closed}
	agentIDs   = func() []signal.AgentID {
		var ids []signal.AgentID
		for _, a := range signal.Agents() {
			ids = append(ids, a.ID)
		}
		return ids
	}()
)

// listingBytes and stateBytes are the approximate sizes of an item of the list and of a signal
// with its state.
const (
	listingBytes = 240
	stateBytes   = 1536
)

// signalFilters are the query parameters that readSignalQuery reads.
var signalFilters = []string{"asset", "strategy", "direction", "min_confidence", "since", "status", "agent_id"}

// viewFull is the value of the parameter view for whole signals.
const viewFull = "full"

// readSignalQuery reads the filters of lists of signals.
func (s *Server) readSignalQuery(c *call) catalogue.Query {
	q := c.query
	return catalogue.Query{
		Account:       c.principal.Account,
		Asset:         s.filterAsset(c),
		Strategy:      request.Option(q, "strategy", strategies),
		Agent:         request.Option(q, "agent_id", agentIDs),
		Direction:     request.Option(q, "direction", directions),
		Status:        request.Option(q, "status", statuses),
		MinConfidence: q.Fraction("min_confidence"),
		Since:         q.Since(),
	}
}

// listSignals answers GET /v1/signals.
func (s *Server) listSignals(c *call) error {
	p := c.query.Page()
	wanted := s.readSignalQuery(c)
	wanted.Limit, wanted.Offset = p.Limit, p.Offset
	view := request.Option(c.query, "view", []string{viewFull})
	if err := c.faults.Err(); err != nil {
		return err
	}
	if view == viewFull {
		return s.listFullSignals(c, wanted, p)
	}
	items, total, err := s.o.Catalogue.List(c.r.Context(), wanted)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, appendList(make([]byte, 0, 128+listingBytes*len(items)), "signals", items,
		appendListing, p, total))
}

// listFullSignals answers with whole signals, from one read of the catalogue and one of the
// records.
func (s *Server) listFullSignals(c *call, wanted catalogue.Query, p request.Page) error {
	at, total, err := s.o.Catalogue.Locations(c.r.Context(), wanted, signal.Location{})
	if err != nil {
		return err
	}
	records, err := s.o.Signals.SignalsAt(c.r.Context(), c.principal.Account, at)
	if err != nil {
		return err
	}
	c.confirms = true // records are not confirmed where they are read, as the catalogue is
	return c.json(http.StatusOK, appendList(make([]byte, 0, 128+stateBytes*len(records)), "signals", records,
		func(b []byte, x **signal.Signal) []byte { return appendSignalState(b, *x) }, p, total))
}

// signalByID answers GET /v1/signals/{id}.
func (s *Server) signalByID(c *call) error {
	found, err := s.findSignal(c)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, appendSignalState(make([]byte, 0, stateBytes), found))
}

// findSignal returns the record of the signal that the path names. A signal that closes between
// the two lookups moves, so both are repeated once.
func (s *Server) findSignal(c *call) (*signal.Signal, error) {
	id, ok := signal.ParseSignalID(c.vars["id"])
	if !ok {
		return nil, signal.NotFound("signal")
	}
	ctx, account := c.r.Context(), c.principal.Account
	for attempt := 0; ; attempt++ {
		created, closed, err := s.o.Catalogue.Find(ctx, account, id)
		if err != nil {
			return nil, err
		}
		found, err := s.o.Signals.SignalByID(ctx, account, id, created, closed)
		if err == nil || attempt > 0 || signal.KindOf(err) != signal.KindNotFound {
			return found, err
		}
	}
}
