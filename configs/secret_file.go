package configs

import (
	"fmt"
	"os"
	"strings"
)

// ReadSecretFile returns what a file holds that a setting names. It refuses one that
// others than its owner may write: they could replace the secret.
func ReadSecretFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s may be written by others (mode %04o): take that right away with chmod go-w, and make a new secret if somebody may have used it",
			path, info.Mode().Perm())
	}
	return os.ReadFile(path)
}

// ReadableSecrets returns the files that everybody on the machine may read, of those
// that variables with the suffix _FILE name and of the given ones. environ has the form
// of os.Environ.
func ReadableSecrets(environ []string, files ...string) []string {
	for _, kv := range environ {
		if name, path, _ := strings.Cut(kv, "="); isFileVariable(name) {
			files = append(files, path)
		}
	}
	var readable []string
	for _, path := range files {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
			readable = append(readable, path)
		}
	}
	return readable
}

// isFileVariable reports whether a variable names a file that holds the value of a
// setting.
func isFileVariable(name string) bool {
	return strings.HasPrefix(name, Prefix) && strings.HasSuffix(name, "_FILE") && !knownVariables()[name]
}
