package configs

import (
	"fmt"
	"os"
	"strings"
)

// ReadSecretFile returns the content of a file that a setting names. It refuses a file
// that others than its owner may write, since they could replace the secret.
func ReadSecretFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s may be written by others (mode %04o): "+
			"run chmod go-w, and make a new secret if others may have changed it", path, info.Mode().Perm())
	}
	return os.ReadFile(path)
}

// ReadableSecrets returns the files that every user of the machine may read, among those
// named by variables with the suffix _FILE and the given ones. environ has the form of
// os.Environ.
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

// isFileVariable reports whether a variable names a file with the value of a setting.
func isFileVariable(name string) bool {
	return strings.HasPrefix(name, Prefix) && strings.HasSuffix(name, "_FILE") && !knownVariables()[name]
}
