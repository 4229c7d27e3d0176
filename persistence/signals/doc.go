// Package signals reads signals from the logs: one by its identifier, those of a partition in
// one pass, the open ones, and the outcomes of the closed ones. It also has the runs whose end
// is due. Package eventlog writes all of them.
package signals
