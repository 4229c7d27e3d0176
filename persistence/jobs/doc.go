// Package jobs keeps jobs and hands out those that wait: each to one node at a time, and to
// another if that node is gone. A job's outcome is stored with the change that makes it,
// by package eventlog, and is refused from a node that no longer holds the job.
package jobs
