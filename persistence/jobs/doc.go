// Package jobs keeps jobs and hands out the waiting ones: each to one node at a time, and to
// another one if that node is no longer live. Package eventlog stores the outcome of a job with
// the change that the job makes, and refuses it from a node that no longer holds the job.
package jobs
