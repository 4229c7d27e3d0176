package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// Clients that generators make from the description compile, and their calls succeed. The
// generators come from the registries of npm and Go. The test takes some two minutes the
// first time and one later, so it is not part of make test.
func TestGeneratedClients(t *testing.T) {
	if os.Getenv("TEST_CLIENTS") == "" {
		t.Skip("it downloads generators: make clients runs it")
	}
	for _, generators := range []struct {
		name, command, dir string
		steps              []string
		programs           []string // each prints the id of the signal that it made
	}{
		{"TypeScript", "npm", ".", []string{
			"npm install --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error",
			"node_modules/.bin/openapi-typescript openapi.yaml --output generated/types.ts",
			"node_modules/.bin/openapi-ts --input openapi.yaml --output generated/heyapi --silent",
			"node_modules/.bin/orval --config ./orval.config.cjs",
			"node_modules/.bin/tsc --project .",
		}, []string{"node out/fetch.js", "node out/heyapi.js", "node out/orval.js", "node mcp.mjs"}},
		{"Go", "go", "go", []string{
			"go tool oapi-codegen -config config.yaml openapi.yaml",
			"go vet ./...",
		}, []string{"go run ."}},
	} {
		t.Run(generators.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(generators.command); err != nil {
				t.Skipf("skipped: %v", err)
			}
			client, _ := e2e.Shared(t).Account(t)
			root := t.TempDir()
			e2e.Must(t, os.CopyFS(root, os.DirFS("testdata/clients")))
			dir := filepath.Join(root, generators.dir)
			e2e.Must(t, os.MkdirAll(filepath.Join(dir, "generated"), 0o700))
			description, err := os.ReadFile(e2e.OpenAPIFile)
			e2e.Must(t, err)
			e2e.Must(t, os.WriteFile(filepath.Join(dir, "openapi.yaml"), description, 0o600))
			run := func(line string) string {
				t.Helper()
				words := strings.Fields(line)
				command := exec.CommandContext(t.Context(), words[0], words[1:]...)
				command.Dir = dir
				command.Env = append(os.Environ(), "BASE_URL="+client.URL, "API_KEY="+client.Token)
				out, err := command.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", line, err, out)
				}
				return string(out)
			}
			for _, step := range generators.steps {
				run(step)
			}
			for _, program := range generators.programs {
				id := strings.TrimSpace(run(program))
				if a := client.Get("/v1/signals/" + id); a.Status != 200 {
					t.Errorf("%s made the signal %q, but the service answers %d", program, id, a.Status)
				}
			}
		})
	}
}
