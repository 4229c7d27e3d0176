package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TypeScriptPackage returns the folder of the package for TypeScript. It skips the test where the package is not built, or
// was built before its last change: the build needs Node and packages of its registry.
func TypeScriptPackage(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(Repository, "deploy", "clients", "typescript")
	built, err := os.Stat(filepath.Join(dir, "dist", "index.js"))
	if err != nil {
		tb.Skip("make console builds the package for TypeScript, which this test uses")
	}
	Must(tb, filepath.WalkDir(filepath.Join(dir, "src"), func(path string, _ fs.DirEntry, err error) error {
		Must(tb, err)
		info, err := os.Stat(path)
		Must(tb, err)
		if info.Mode().IsRegular() && info.ModTime().After(built.ModTime()) {
			tb.Skipf("%s is newer than the built package: make console builds it", path)
		}
		return nil
	}))
	return dir
}
