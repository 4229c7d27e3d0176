package service

import (
	"runtime/debug"
	"strings"

	modversion "golang.org/x/mod/module"
)

// devVersion is the version of a build that is no release.
const devVersion = "0.1.0-dev"

// release is set by -ldflags when a release is built.
var release string

// Version is that of the release, or of the module that "go install" was given.
var Version, commit = versionOf(release, readBuildInfo())

// Commit returns the revision that the binary was built from, or "unknown".
func Commit() string { return commit }

func readBuildInfo() debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return *info
	}
	return debug.BuildInfo{}
}

// versionOf returns the version and the commit of a build. In a checkout, go build makes a version of the
// commit and the last tag, which is used only if it is that of the tag itself.
func versionOf(release string, info debug.BuildInfo) (version, commit string) {
	version = info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	checkout, pseudo := commit != "", modversion.IsPseudoVersion(version)
	if !checkout {
		commit = "unknown"
		if rev, err := modversion.PseudoVersionRev(version); err == nil {
			commit = rev
		}
	}
	switch {
	case release != "":
		return release, commit
	case version == "", version == "(devel)", checkout && (pseudo || strings.HasSuffix(version, "+dirty")):
		return devVersion, commit
	}
	return strings.TrimPrefix(version, "v"), commit
}
