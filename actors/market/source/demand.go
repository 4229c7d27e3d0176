package source

import "time"

// An asset of a real source is kept while it is needed: while a node has had a run, a
// scan or an open signal on it within keepUnused, or within keepFull where it keeps
// others from being asked for. Nodes notify the feeder each useEvery.
const (
	KeepUnused = time.Hour
	KeepFull   = 10 * time.Minute
	UseEvery   = time.Minute
)

// Refusal is why no real source gives an asset that was asked for.
type Refusal string

// The refusals. Empty: there is none.
const (
	RefusedUnknown Refusal = "unknown" // no source knows it
	RefusedAway    Refusal = "away"    // no source answers at the moment
	RefusedFull    Refusal = "full"    // there are as many assets as there may be
	RefusedShare   Refusal = "share"   // the account that asks has as many as it may have
)

// How long the feeder remembers a refusal.
const (
	RefusedFor = 5 * time.Minute  // no source knows the asset
	AwayFor    = 10 * time.Second // no source answers
	FullFor    = time.Minute      // as many assets are kept as there may be
)
