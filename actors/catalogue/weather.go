package catalogue

import (
	"cmp"
	"slices"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// WeatherQuery selects Weather signals. A zero member does not filter.
type WeatherQuery struct {
	Account                     signal.AccountID
	View                        *signal.View // what the caller sees of the account
	Region, Commodity, Severity string
	Since                       time.Time // exclusive
	Limit, Offset               int       // 1 or more, 0 or more
}

// weatherRow is a Weather signal. Its signal has a row of its own in rows.
type weatherRow struct {
	id         [16]byte // the ULID
	created    int64    // milliseconds
	confidence float64  // as listed
	initial    float64
	direction  signal.Direction
	outlook    *signal.Outlook
	kind       kind   // of its row, without the direction
	group      uint32 // of its asset
}

// weatherRows holds an account's Weather signals by creation and then identifier, the
// newest last. They are few, one per weather run, so lists scan them all.
type weatherRows struct {
	list []*weatherRow
	byID map[[16]byte]*weatherRow
}

// add adds a Weather signal, unless it is a repetition.
func (w *weatherRows) add(l *signal.Listing, id [16]byte, o *signal.Outlook, of kind, group uint32) {
	if w.byID[id] != nil {
		return
	}
	if w.byID == nil {
		w.byID = make(map[[16]byte]*weatherRow)
	}
	v := &weatherRow{
		id:         id,
		created:    l.CreatedAt.UnixMilli(),
		confidence: signal.RoundConfidence(l.Confidence),
		initial:    signal.RoundConfidence(l.Confidence),
		direction:  l.Direction,
		outlook:    o,
		kind:       of,
		group:      group,
	}
	w.byID[id] = v
	at := len(w.list)
	for at > 0 && compareWeather(w.list[at-1], v) > 0 { // created in the same millisecond
		at--
	}
	w.list = slices.Insert(w.list, at, v)
}

func compareWeather(a, b *weatherRow) int {
	return cmp.Or(cmp.Compare(a.created, b.created), slices.Compare(a.id[:], b.id[:]))
}

// forget drops the signals created at or before ms.
func (w *weatherRows) forget(ms int64) {
	n := 0
	for n < len(w.list) && w.list[n].created <= ms {
		delete(w.byID, w.list[n].id)
		n++
	}
	w.list = slices.Delete(w.list, 0, n)
}

// page returns the page of q and the number of matches, among the signals created after
// notBefore. s is the sight of the view of q.
func (w *weatherRows) page(q *WeatherQuery, s *sight, notBefore int64) ([]signal.WeatherSignal, int) {
	items, total := []signal.WeatherSignal{}, 0
	after := max(notBefore, unixMilli(q.Since))
	for i := len(w.list) - 1; i >= 0 && w.list[i].created > after; i-- {
		v := w.list[i]
		if !v.matches(q) || !s.sees(v.kind, v.group) {
			continue
		}
		if total >= q.Offset && len(items) < q.Limit {
			items = append(items, v.signal())
		}
		total++
	}
	return items, total
}

func (v *weatherRow) matches(q *WeatherQuery) bool {
	return (q.Region == "" || q.Region == v.outlook.Region) &&
		(q.Commodity == "" || q.Commodity == v.outlook.Commodity) &&
		(q.Severity == "" || q.Severity == v.outlook.Event.Severity)
}

func (v *weatherRow) signal() signal.WeatherSignal {
	return signal.WeatherSignal{
		ID:         signal.SignalIDFromBytes(v.id).Weather(),
		Direction:  v.direction,
		Confidence: v.confidence,
		Initial:    v.initial,
		CreatedAt:  time.UnixMilli(v.created).UTC(),
		Outlook:    *v.outlook,
	}
}
