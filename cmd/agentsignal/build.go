package main

import "runtime/debug"

// version is set when a release is built.
var version = "0.1.0-dev"

// commit returns the revision that the binary was built from, "unknown" if the
// build does not tell.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
