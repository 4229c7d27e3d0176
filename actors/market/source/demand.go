package source

import "time"

// An asset of a real source is kept while a node has had a run, a scan or an open signal on it within
// KeepUnused, or within KeepFull if there is no room for others. Nodes record their use every UseEvery.
const (
	KeepUnused = time.Hour
	KeepFull   = 10 * time.Minute
	UseEvery   = time.Minute
)

// Refusal is the reason for which no real source gives an asset that was asked for.
type Refusal string

// The refusals.
const (
	RefusedUnknown Refusal = "unknown" // no source knows it
	RefusedSilent  Refusal = "away"    // no source answers
	RefusedFull    Refusal = "full"    // there are too many assets
	RefusedShare   Refusal = "share"   // the account has too many assets
)

// How long the feeder remembers a refusal.
const (
	RefusedFor = 5 * time.Minute  // no source knows the asset
	SilentFor  = 10 * time.Second // no source answers
	FullFor    = time.Minute      // there are too many assets
)
