// Package signals reads signals from the logs: one by its identifier, those of a partition in
// one pass, the open ones, and the outcomes of the closed ones. It also has the runs whose end
// is due. Package eventlog writes all of them.
//
// Two passes are over whole logs and often repeated: that for lists (scan.go) and that for the fit of
// weather slopes (weather.go). Both read blocks, which the owner of the partition makes of each 10,000
// entries with what these passes need (blocks.go, codec.BlockWriter), and the log where there is none that
// they can read. So blocks save time only: without them the passes find the same.
package signals
