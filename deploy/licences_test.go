package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	licencesFile = "LICENCES.md"
	consoleDir   = "../http/console"
)

// licenceTexts recognize licences in a file, which may hold several, by patterns of what it has and lacks.
var licenceTexts = []struct{ licence, has, lacks string }{
	{"Apache-2.0", `Apache License,? Version 2\.0`, ""},
	{"BSD-2-Clause", `Redistribution and use in source and binary forms`, `to endorse or promote`},
	{"BSD-3-Clause", `Redistribution and use in source and binary forms.*to endorse or promote`, ""},
	{"ISC", `Permission to use, copy, modify, and/?(or)? distribute this software`, ""},
	{"MIT", `Permission is hereby granted, free of charge`, ""},
	{"GPL", `GNU (Affero |Lesser |Library )?General Public License|GNU AFFERO`, ""},
	{"MPL-2.0", `Mozilla Public License`, ""},
}

// licencesIn returns the licences of the files of a module in dir.
func licencesIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`^(?i:licen[cs]e|copying)`)
	var found []string
	for _, e := range entries {
		if e.IsDir() || !named.MatchString(e.Name()) {
			continue
		}
		file := filepath.Join(dir, e.Name())
		text := strings.Join(strings.Fields(read(t, file)), " ")
		for _, l := range licenceTexts {
			if regexp.MustCompile(l.has).MatchString(text) && (l.lacks == "" || !regexp.MustCompile(l.lacks).MatchString(text)) {
				found = append(found, l.licence)
			}
		}
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), ", ")
}

// linkedModules returns the modules that are linked into the program for Linux, with their licences.
func linkedModules(t *testing.T) map[string]string {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}{{end}}{{end}}", "./cmd/agentsignal")
	list.Dir = ".."
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list modules: %v", err)
	}
	modules := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, dir, found := strings.Cut(strings.TrimSpace(line), "\t")
		if found && modules[path] == "" {
			modules[path] = licencesIn(t, dir)
		}
	}
	return modules
}

// bundledPackages returns the packages that the console's source imports, and those that they need.
func bundledPackages(t *testing.T) map[string]string {
	t.Helper()
	var lock struct {
		Packages map[string]struct {
			License      string
			Dependencies map[string]string
			Link         bool // to a package of the repository
		}
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(consoleDir, "package-lock.json"))), &lock); err != nil {
		t.Fatal(err)
	}
	packages := map[string]string{}
	var add func(name string)
	add = func(name string) {
		p := lock.Packages["node_modules/"+name]
		if p.Link {
			return
		}
		packages[name] = p.License
		for needed := range p.Dependencies {
			add(needed)
		}
	}
	imported := regexp.MustCompile(`(?:from|import) ?\(?"((?:@[^/"]+/)?[^./"][^/"]*)`)
	err := filepath.WalkDir(filepath.Join(consoleDir, "src"), func(path string, _ os.DirEntry, err error) error {
		if ext := filepath.Ext(path); err != nil || ext != ".ts" && ext != ".tsx" || strings.Contains(path, ".test.") {
			return err
		}
		for _, m := range imported.FindAllStringSubmatch(read(t, path), -1) {
			add(m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// licenceTable returns rows in the order of their names. It fails the test for a licence that is not known or not
// allowed.
func licenceTable(t *testing.T, what string, rows map[string]string) string {
	t.Helper()
	table := "| " + what + " | licence |\n|---|---|\n"
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if rows[name] == "" || strings.Contains(rows[name], "GPL") {
			t.Errorf("the licence of %s is %q", name, rows[name])
		}
		table += fmt.Sprintf("| %s | %s |\n", name, rows[name])
	}
	return table
}

// TestLicencesAreThoseOfWhatIsEmbedded compares the tables of the file, or writes them if TEST_LICENCES is set.
func TestLicencesAreThoseOfWhatIsEmbedded(t *testing.T) {
	t.Parallel()
	want := licenceTable(t, "Go module", linkedModules(t)) + "\n" +
		licenceTable(t, "package of the console", bundledPackages(t))
	const heading = "## Tables\n\n"
	head, got, found := strings.Cut(read(t, licencesFile), heading)
	switch {
	case !found:
		t.Fatalf("%s has no %q", licencesFile, heading)
	case os.Getenv("TEST_LICENCES") != "":
		if err := os.WriteFile(licencesFile, []byte(head+heading+want), 0o644); err != nil {
			t.Fatal(err)
		}
	case got != want:
		t.Errorf("%s is not what is embedded: run make licences. It has\n%s\nwant\n%s", licencesFile, got, want)
	}
}

// The notices of Swagger UI are those of the version that is embedded.
func TestNoticesOfSwaggerUI(t *testing.T) {
	t.Parallel()
	embedded := regexp.MustCompile(`github\.com/swaggest/swgui v\S+`).FindString(read(t, "../go.mod"))
	first, _, _ := strings.Cut(read(t, "packages/swagger-ui.txt"), ",")
	if embedded == "" || !strings.HasSuffix(first, " "+embedded) {
		t.Errorf("packages/swagger-ui.txt begins with %q, and %q is embedded", first, embedded)
	}
}
