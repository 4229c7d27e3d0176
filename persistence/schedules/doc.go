// Package schedules keeps the schedules of accounts, when each is due, and the results of its
// rounds. Writes of a partition's owner name its epoch.
package schedules
