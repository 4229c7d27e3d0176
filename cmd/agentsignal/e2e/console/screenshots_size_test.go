package console

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// maxPictures limits what the pictures add to every clone, in bytes.
const maxPictures = 1_000_000

// pictureLink matches the address of a picture in Markdown and in HTML.
var pictureLink = regexp.MustCompile(`(?:!\[[^\]]*\]\(|(?:src|srcset)=")([^)"\s]+)`)

// The pictures in the repository stay small, and those that the README shows exist.
func TestPictures(t *testing.T) {
	t.Parallel()
	const root = "../../../.."
	total := int64(0)
	e2e.Must(t, filepath.WalkDir(filepath.Join(root, "deploy", "screenshots"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	}))
	if total > maxPictures {
		t.Errorf("deploy/screenshots has %d bytes, more than %d", total, maxPictures)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	e2e.Must(t, err)
	for _, link := range pictureLink.FindAllSubmatch(readme, -1) {
		if strings.Contains(string(link[1]), "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(string(link[1])))); err != nil {
			t.Errorf("the README shows %s: %v", link[1], err)
		}
	}
}
