//go:build !linux

package dashboard

import "runtime"

// netPoll lets other goroutines run.
type netPoll struct{}

func (*netPoll) poll()  { runtime.Gosched() }
func (*netPoll) close() {}
