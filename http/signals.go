package http

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/catalogue"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/http/request"
)

// Catalogue lists the signals of accounts. See catalogue.Catalogue.
type Catalogue interface {
	List(ctx context.Context, q catalogue.Query) (items []signal.Listing, total int, err error)
	// Locations is List for callers that read the records, with pages behind a signal.
	Locations(ctx context.Context, q catalogue.Query, before signal.Location) ([]signal.Location, int, error)
	AssetSuggester
	SignalFinder
	// AwaitClosing returns once a signal of an account is closed, or when ctx ends.
	AwaitClosing(ctx context.Context, account signal.AccountID, id signal.SignalID) error
}

// AssetSuggester helps with misspelt assets. See catalogue.Catalogue.
type AssetSuggester interface {
	// SuggestAssets returns the assets that a name in a filter of a view may stand for, if it looks misspelt.
	SuggestAssets(ctx context.Context, account signal.AccountID, view *signal.View, name string) []string
}

// SignalFinder finds the records of signals. See catalogue.Catalogue.
type SignalFinder interface {
	// Find returns the positions at which a signal of a view was created and, if so, closed.
	// KindNotFound.
	Find(ctx context.Context, account signal.AccountID, view *signal.View, id signal.SignalID) (
		created, closed signal.Position, err error)
}

// Signals holds the records of signals. See signals.Store.
type Signals interface {
	SignalByID(ctx context.Context, account signal.AccountID, id signal.SignalID,
		created, closed signal.Position) (*signal.Signal, error)
	// SignalsAt returns the signals at locations, without those that no longer exist.
	SignalsAt(ctx context.Context, account signal.AccountID, at []signal.Location) ([]*signal.Signal, error)
}

// Exits records that agents end their signals. See eventlog.Log.
type Exits interface {
	// RequestExit makes an open signal end by the first price after the call. It changes nothing if that was
	// requested before, or if the signal is closed.
	RequestExit(ctx context.Context, account signal.AccountID, id signal.SignalID) error
}

// The values of the query parameters of list.
var (
	directions = []signal.Direction{signal.Long, signal.Short}
	statuses   = []signal.Status{signal.Open, signal.Closed}
)

// SignalHandlers answer for signals, their history and exports of them.
type SignalHandlers struct {
	catalogue Catalogue
	signals   Signals
	exits     Exits
	exports   *Exports
	agents    *AgentCatalogue
}

// NewSignalHandlers returns the handlers of signals.
func NewSignalHandlers(
	catalogue Catalogue, signals Signals, exits Exits, exports *Exports, agents *AgentCatalogue,
) *SignalHandlers {
	return &SignalHandlers{catalogue, signals, exits, exports, agents}
}

// Routes implements Resource.
func (h *SignalHandlers) Routes() []*Route {
	const scope = signal.SignalsRead
	return []*Route{
		route("/v1/signals", methods{"GET": seen(immediate(get(scope, h.list,
			slices.Concat(signalFilters, []string{"limit", "offset", "view"})...)))}),
		route("/v1/signals/export", methods{"GET": seen(get(scope, h.export,
			slices.Concat(signalFilters, []string{"format"})...))}),
		route("/v1/signals/{id}", methods{"GET": seen(get(scope, h.byID))}),
		route("/v1/signals/{id}/history", methods{"GET": seen(get(scope, h.history))}),
		route("/v1/signals/{id}/close", methods{"POST": change(signal.AgentsRun, h.close)}),
	}
}

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
func readSignalQuery(c *call, suggester AssetSuggester, all *AgentCatalogue) (catalogue.Query, error) {
	q := c.query
	agents, strategies, err := all.filterNames(c.r.Context(), &c.principal, q.Get("agent_id"), q.Get("strategy"))
	return catalogue.Query{
		Account:       c.principal.Account,
		View:          c.principal.View,
		Asset:         filterAsset(c, suggester),
		Strategy:      request.Option(q, "strategy", strategies),
		Agent:         request.Option(q, "agent_id", agents),
		Direction:     request.Option(q, "direction", directions),
		Status:        request.Option(q, "status", statuses),
		MinConfidence: q.Fraction("min_confidence"),
		Since:         q.Since(),
	}, err
}

// filterAsset reads the parameter asset of a list.
func filterAsset(c *call, suggester AssetSuggester) string {
	name := c.query.Text("asset", maxAssetLength)
	if name != "" {
		if code, detail := checkFilterAsset(c, suggester, name); code != "" {
			c.faults.Add(request.InQuery, "asset", code, detail)
		}
	}
	return name
}

// checkFilterAsset returns the fault of an asset in a filter, or empty texts. Any name may be a subject of
// content, but one that looks misspelt would silently select nothing.
func checkFilterAsset(c *call, suggester AssetSuggester, name string) (code, detail string) {
	if code, detail = request.CheckText(name, maxAssetLength); code != "" {
		return code, detail
	}
	if near := suggester.SuggestAssets(c.r.Context(), c.principal.Account, c.principal.View, name); len(near) > 0 {
		return request.CodeInvalidValue, "neither an asset nor a signal of the account has this name: " + adviceOn(near)
	}
	return "", ""
}

// list answers GET /v1/signals.
func (h *SignalHandlers) list(c *call) error {
	p := c.query.Page()
	wanted, err := readSignalQuery(c, h.catalogue, h.agents)
	if err != nil {
		return err
	}
	wanted.Limit, wanted.Offset = p.Limit, p.Offset
	view := request.Option(c.query, "view", []string{viewFull})
	if err := c.faults.Err(); err != nil {
		return err
	}
	if view == viewFull {
		return h.listFull(c, wanted, p)
	}
	items, total, err := h.catalogue.List(c.r.Context(), wanted)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, appendList(make([]byte, 0, 128+listingBytes*len(items)), "signals", items,
		appendListing, p, total))
}

// listFull answers with whole signals, from one read of the catalogue and one of the
// records.
func (h *SignalHandlers) listFull(c *call, wanted catalogue.Query, p request.Page) error {
	at, total, err := h.catalogue.Locations(c.r.Context(), wanted, signal.Location{})
	if err != nil {
		return err
	}
	records, err := h.signals.SignalsAt(c.r.Context(), c.principal.Account, at)
	if err != nil {
		return err
	}
	c.confirms = true // records are not confirmed where they are read, as the catalogue is
	return c.json(http.StatusOK, appendList(make([]byte, 0, 128+stateBytes*len(records)), "signals", records,
		func(b []byte, x **signal.Signal) []byte { return appendSignalState(b, *x) }, p, total))
}

// byID answers GET /v1/signals/{id}.
func (h *SignalHandlers) byID(c *call) error {
	found, err := h.find(c)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, appendSignalState(make([]byte, 0, stateBytes), found))
}

// find returns the record of the signal that the path names.
func (h *SignalHandlers) find(c *call) (*signal.Signal, error) {
	id, ok := signal.ParseSignalID(c.vars["id"])
	if !ok {
		return nil, signal.NotFound("signal")
	}
	return h.byIDOf(c.r.Context(), &c.principal, id)
}

// byIDOf returns the record of a signal that a principal sees. A signal that closes between the two lookups moves, so both
// are repeated once.
func (h *SignalHandlers) byIDOf(ctx context.Context, p *signal.Principal, id signal.SignalID) (*signal.Signal, error) {
	for attempt := 0; ; attempt++ {
		created, closed, err := h.catalogue.Find(ctx, p.Account, p.View, id)
		if err != nil {
			return nil, err
		}
		found, err := h.signals.SignalByID(ctx, p.Account, id, created, closed)
		if err == nil || attempt > 0 || signal.KindOf(err) != signal.KindNotFound {
			return found, err
		}
	}
}

// exitWait is for how long an answer waits for the closing of a signal that its agent has ended.
const exitWait = 2 * time.Second

// errNotClosable refuses the exit of a signal that is no agent's of an account.
var errNotClosable = &signal.Error{Kind: signal.KindConflict, Code: "not_closable",
	Message: "the signal is of an agent of the service: it closes at its levels or expires"}

// close answers POST /v1/signals/{id}/close, once the signal is closed or exitWait is over.
func (h *SignalHandlers) close(c *call) error {
	if _, err := c.empty(); err != nil {
		return err
	}
	found, err := h.find(c)
	if err == nil && found.Agent.BuiltIn() {
		err = errNotClosable
	}
	if err == nil && found.Closing == nil {
		if err = h.exits.RequestExit(c.r.Context(), found.Account, found.ID); err == nil {
			ctx, cancel := context.WithTimeout(c.r.Context(), exitWait)
			_ = h.catalogue.AwaitClosing(ctx, found.Account, found.ID) // the record shows whether it is closed
			cancel()
			found, err = h.find(c)
		}
	}
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, appendExitState(make([]byte, 0, stateBytes), found))
}

// signalHistory is the answer to GET /v1/signals/{id}/history.
type signalHistory struct {
	Events []historyEvent `json:"events"`
}

// historyEvent is an event of a signal and what it published.
type historyEvent struct {
	Type       string  `json:"type"`
	At         instant `json:"at"`
	Confidence number  `json:"confidence"`
	Price      *number `json:"price"`
}

// history answers GET /v1/signals/{id}/history.
func (h *SignalHandlers) history(c *call) error {
	found, err := h.find(c)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, signalHistory{viewHistory(found)})
}

// viewHistory returns the events of s, oldest first.
func viewHistory(s *signal.Signal) []historyEvent {
	var entry *number
	if s.Levels != nil {
		entry = new(number(s.Levels.Entry))
	}
	events := []historyEvent{{"created", instant(s.CreatedAt), shownConfidence(s.FirstConfidence), entry}}
	for _, u := range s.Updates {
		var price *number
		if u.Price != 0 {
			price = new(number(u.Price))
		}
		events = append(events, historyEvent{"updated", instant(u.At), shownConfidence(u.Confidence), price})
	}
	if c := s.Closing; c != nil {
		var exit *number
		if c.ExitPrice != nil {
			exit = new(number(*c.ExitPrice))
		}
		events = append(events, historyEvent{"closed", instant(c.At), shownConfidence(s.Confidence), exit})
	}
	return events
}

func shownConfidence(v float64) number { return number(signal.RoundConfidence(v)) }
