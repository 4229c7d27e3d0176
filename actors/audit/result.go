package audit

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
)

// maxDifferences bounds the differences in the result of an account.
const maxDifferences = 100

// Result is what the last audit has found about the signals of an account, as clients see it.
type Result struct {
	At            string         `json:"at"`
	Signals       int            `json:"signals"`
	Recomputed    int            `json:"recomputed"`
	NotRecomputed map[string]int `json:"not_recomputed"`
	Closed        int            `json:"closed"`
	Replayed      int            `json:"ends_replayed"`
	Held          int            `json:"ends_held_against_bars"`
	NotCompared   map[string]int `json:"ends_not_compared"`
	Outlooks      int            `json:"outlooks_compared"`
	Published     Published      `json:"published_confidences"`
	Live          Live           `json:"live_against_backtest"`
	Record        ResultRecord   `json:"record"`
	Shifts        []Shift        `json:"mean_differences"`
	Total         int            `json:"differences_total"`
	Differences   []Item         `json:"differences"`
}

// ResultRecord are the signals of an account that were ever recorded.
type ResultRecord struct {
	Created int64 `json:"created"`
	Closed  int64 `json:"closed"`
	Differ  int   `json:"differ"`
}

// Item is a difference: of a member of a signal, or of the record.
type Item struct {
	ID         *signal.SignalID `json:"signal_id"` // null: of the record or of a mean
	Member     string           `json:"member"`
	Stored     string           `json:"stored"`
	Recomputed string           `json:"recomputed"`
}

// String implements fmt.Stringer.
func (i Item) String() string {
	text := i.Member + ": stored " + i.Stored + ", recomputed " + i.Recomputed
	if i.Stored == "" {
		text = i.Member + ": " + i.Recomputed
	}
	if i.ID != nil {
		text = string(*i.ID) + ", " + text
	}
	return text
}

// newResult returns what an account sees of its report.
func newResult(r *Report, at time.Time) *Result {
	result := &Result{
		At: at.UTC().Format(signal.TimeLayout), Signals: r.Signals, Recomputed: r.Recomputed,
		NotRecomputed: r.NotRecomputed, Closed: r.Closed, Replayed: r.Replayed, Held: r.Held,
		NotCompared: r.NotCompared, Shifts: r.Shifts, Differences: []Item{},
		Outlooks: r.Outlooks, Published: r.Published, Live: r.Live,
		Record: ResultRecord{r.Record.Created, r.Record.Closed, len(r.Record.Differing)},
	}
	add := func(id signal.SignalID, member, stored, now string) {
		if result.Total++; len(result.Differences) < maxDifferences {
			item := Item{Member: member, Stored: stored, Recomputed: now}
			if id != "" {
				item.ID = &id
			}
			result.Differences = append(result.Differences, item)
		}
	}
	for _, f := range r.Record.Differing {
		add(f.ID, "record", "", f.What)
	}
	for i := range r.Shifts {
		if s := &r.Shifts[i]; s.Systematic {
			add("", s.Member, fmt.Sprintf("%+.6f on average of %d signals", s.Mean, s.Count), "0")
		}
	}
	for i := range r.Differing {
		for _, d := range r.Differing[i].Differences {
			add(r.Differing[i].ID, d.Member, d.Stored, d.Now)
		}
	}
	return result
}

// decodeResult reads a stored result.
func decodeResult(stored []byte) (Result, error) {
	var r Result
	if err := json.Unmarshal(stored, &r); err != nil {
		return r, fmt.Errorf("read result of an audit: %w", err)
	}
	if r.Differences == nil {
		r.Differences = []Item{}
	}
	if r.Shifts == nil {
		r.Shifts = []Shift{}
	}
	for _, m := range []*map[string]int{&r.NotRecomputed, &r.NotCompared, &r.Published.NotCompared, &r.Live.Explained,
		&r.Live.NotReplayed} {
		if *m == nil {
			*m = map[string]int{}
		}
	}
	return r, nil
}
