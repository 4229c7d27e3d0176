package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"github.com/agentsignal/agentsignal/http/client"
)

// DefaultProfile is the name of the profile that commands use if none is named.
const DefaultProfile = "default"

// Profile is what agentsignal login keeps of a service: its address and an API key.
type Profile struct {
	URL   string `json:"url"`
	Email string `json:"email"`
	KeyID string `json:"key_id"`
	Key   string `json:"api_key"`
	// Authorities is the path of a file with certificates that are trusted beside those of the system, or "".
	Authorities string `json:"cacert,omitempty"`
}

// maxPrivate limits a file with a key, in bytes.
const maxPrivate = 1 << 16

// profileName are the allowed names of profiles.
var profileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)

// ProfilePath returns the path of a profile.
func ProfilePath(name string) (string, error) {
	if !profileName.MatchString(name) {
		return "", fmt.Errorf("--profile: %q is no name of a profile: use letters, digits, dots, - and _", name)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the directory of profiles: %w", err)
	}
	return filepath.Join(dir, "agentsignal", "profiles", name+".json"), nil
}

// ReadProfile reads a profile. The error is fs.ErrNotExist if it does not exist. A file that others
// can read is refused.
func ReadProfile(name string) (*Profile, error) {
	path, err := ProfilePath(name)
	if err != nil {
		return nil, err
	}
	text, err := ReadPrivate(path)
	if err != nil {
		return nil, err
	}
	p, err := parseProfile(text)
	if err != nil {
		return nil, fmt.Errorf("%s is no profile: %w: agentsignal login --profile %s makes it again", path, err, name)
	}
	return p, nil
}

// parseProfile reads the text of a profile.
func parseProfile(text []byte) (*Profile, error) {
	var p Profile
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, err
	}
	if p.Key == "" {
		return nil, errors.New("it has no api_key")
	}
	if _, err := client.ParseAddress(p.URL); err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return &p, nil
}

// Save writes the profile and returns its path. Others cannot read the file.
func (p *Profile) Save(name string) (string, error) {
	path, err := ProfilePath(name)
	if err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("make the directory of profiles: %w", err)
	}
	return path, WritePrivate(path, append(text, '\n'))
}

// WritePrivate replaces a file by one that others cannot read. A file or a link that is there is not
// written through.
func WritePrivate(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// ReadPrivate reads a file with a key. It refuses a file that others can read.
func ReadPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others can read %s, which has a key: chmod 600 it, and replace the key", path)
	}
	return io.ReadAll(io.LimitReader(f, maxPrivate))
}
