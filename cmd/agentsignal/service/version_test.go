package service

import (
	"runtime/debug"
	"testing"
)

func TestVersionIsThatOfTheBuild(t *testing.T) {
	t.Parallel()
	const pseudo = "0.0.0-20261126071950-0123456789ab"
	const rev = "0123456789abcdef0123456789abcdef01234567"
	for name, c := range map[string]struct{ release, module, revision, version, commit string }{
		"a release":                         {"1.2.3", "v1.2.4-0.20261126071950-0123456789ab", rev, "1.2.3", rev},
		"a release without a repository":    {"1.2.3", "(devel)", "", "1.2.3", "unknown"},
		"go install of a tag":               {"", "v1.2.3", "", "1.2.3", "unknown"},
		"go install of a commit":            {"", "v" + pseudo, "", pseudo, "0123456789ab"},
		"go build of a commit":              {"", "v" + pseudo, rev, devVersion, rev},
		"go build of changed files":         {"", "v1.2.3+dirty", rev, devVersion, rev},
		"go build of a tag":                 {"", "v1.2.3", rev, "1.2.3", rev},
		"go build without a repository":     {"", "(devel)", "", devVersion, "unknown"},
		"a build that does not describe it": {"", "", "", devVersion, "unknown"},
	} {
		info := debug.BuildInfo{Main: debug.Module{Version: c.module}}
		if c.revision != "" {
			info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: c.revision}}
		}
		if version, commit := versionOf(c.release, info); version != c.version || commit != c.commit {
			t.Errorf("%s: version %s of commit %s, want %s of %s", name, version, commit, c.version, c.commit)
		}
	}
}
