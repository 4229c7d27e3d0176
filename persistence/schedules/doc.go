// Package schedules keeps the schedules of accounts, when each is due, and what came of
// its rounds. What the owner of a partition stores names its epoch.
package schedules
