// Package weather says what the weather that is forecast means for commodities.
//
//	source ─> forecast of 14 days ─┐
//	      └─> 30 years of archive ─┴─> anomaly against normals ─> Outlook
//
// Two sources are built in: simulated weather, which needs no network and is the same
// for one seed and clock, and Open-Meteo. What comes from a network is kept in the
// store, so that nodes share it: the archive of a point for good, a forecast until the
// next run.
//
// What it promises:
//
//   - An Outlook follows from forecast, archive and date alone: outlook.go and what it
//     calls have no clock, no random source and no input.
//   - A value that is missing is missing: it is never taken for 0. With less than four
//     fifths of the values there is no outlook.
//   - A forecast older than twelve hours is not used.
//   - How much a forecast counts for follows from what the signal log had before a fixed
//     time: all nodes go by the same.
//
// Where to read: point.go (places), measure.go (daily values), normal.go (what is
// normal), outlook.go, event.go and impact.go (what a forecast means), slope.go (how much
// it counts for) and slopes.go (on what that is fitted), service.go (who asks, and what is
// kept), simulated.go, openmeteo.go.
package weather
