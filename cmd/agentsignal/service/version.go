package service

import "runtime/debug"

// Version is set when a release is built.
var Version = "0.1.0-dev"

// Commit returns the revision that the binary was built from, or "unknown".
func Commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
