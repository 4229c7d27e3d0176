// Package weather derives from forecasts what the weather means for commodities.
//
//	source ─> forecast of 14 days ─┐
//	      └─> 30 years of archive ─┴─> anomaly against normals ─> Outlook
//
// There are two sources: simulated weather, which needs no network and is determined by
// its seed and the clock, and Open-Meteo. Data from a network are kept in the store, so
// that nodes share them: the archive of a point for good, a forecast until the next run.
//
// The package promises:
//
//   - An Outlook is a function of forecast, archive and date: outlook.go and
//     what it calls have no clock, no random source and no I/O.
//   - A missing value is never taken for 0. With less than four fifths of the
//     values there is no outlook.
//   - A forecast older than twelve hours is not used.
//   - The weight of a forecast is fitted to the signal log up to a fixed time,
//     so all nodes use the same weight.
//
// Where to read: point.go (places), measure.go (daily values), normal.go (what is
// normal), outlook.go and impact.go (what a forecast means), slope.go (the
// weight of a forecast), service.go (requests and storage),
// simulated.go, openmeteo.go.
package weather
