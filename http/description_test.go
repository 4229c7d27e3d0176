package http_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// descriptions are the two documents, read as plain YAML.
func descriptions(tb testing.TB) map[string]map[string]any {
	tb.Helper()
	all := map[string]map[string]any{}
	for _, name := range []string{"openapi", "asyncapi"} {
		text, err := os.ReadFile(name + ".yaml")
		if err != nil {
			tb.Fatal(err)
		}
		var doc map[string]any
		if err := yaml.Unmarshal(text, &doc); err != nil {
			tb.Fatalf("read %s: %v", name, err)
		}
		all[name] = doc
	}
	return all
}

// Generators make one type of each component of all sections. Some drop all but letters and
// digits from the name, and some the case.
func TestNamesOfComponentsAreUnique(t *testing.T) {
	t.Parallel()
	for document, doc := range descriptions(t) {
		sections, _ := doc["components"].(map[string]any)
		if len(sections["schemas"].(map[string]any)) < 10 {
			t.Fatalf("%s has no schemas", document)
		}
		first := make(map[string]string)
		for _, section := range slices.Sorted(maps.Keys(sections)) {
			for _, name := range slices.Sorted(maps.Keys(sections[section].(map[string]any))) {
				bare := strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(name))
				if other, taken := first[bare]; taken {
					t.Errorf("%s: %s/%s has the name of %s", document, section, name, other)
				}
				first[bare] = section + "/" + name
			}
		}
	}
}

// A client generator knows one base URL, whatever servers an operation names.
func TestOneServer(t *testing.T) {
	t.Parallel()
	doc := descriptions(t)["openapi"]
	servers, _ := doc["servers"].([]any)
	if len(servers) != 1 || servers[0].(map[string]any)["url"] != "/" {
		t.Errorf("servers are %v, want / alone", servers)
	}
	for path, item := range doc["paths"].(map[string]any) {
		for member, operation := range item.(map[string]any) {
			object, _ := operation.(map[string]any)
			if _, own := object["servers"]; own || member == "servers" {
				t.Errorf("%s %s has servers of its own", member, path)
			}
		}
	}
}

// openapi-typescript makes a member with a default mandatory, also in requests. So the
// defaults of members of request bodies are in their descriptions.
func TestBodiesOfRequestsHaveNoDefaults(t *testing.T) {
	t.Parallel()
	doc := descriptions(t)["openapi"]
	bodies, seen := 0, make(map[string]bool)
	var walk func(at string, v any)
	walk = func(at string, v any) {
		eachObject(v, func(object map[string]any) {
			if ref, ok := object["$ref"].(string); ok && !seen[ref] {
				seen[ref] = true
				var target any = doc
				for _, step := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
					target = target.(map[string]any)[step]
				}
				walk(ref, target)
			}
			if _, has := object["default"]; has && object["type"] != nil {
				t.Errorf("%s: a member has the default %v", at, object["default"])
			}
		})
	}
	for path, item := range doc["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			object, _ := operation.(map[string]any)
			if body, ok := object["requestBody"]; ok {
				bodies++
				walk(method+" "+path, body)
			}
		}
	}
	if bodies < 15 {
		t.Errorf("%d operations have a body", bodies)
	}
}

// Payloads without a name become AnonymousSchema_1 in generated code.
func TestPayloadsHaveNames(t *testing.T) {
	t.Parallel()
	components := descriptions(t)["asyncapi"]["components"].(map[string]any)
	schemas := components["schemas"].(map[string]any)
	for name, message := range components["messages"].(map[string]any) {
		payload, _ := message.(map[string]any)["payload"].(map[string]any)
		ref, _ := payload["$ref"].(string)
		if schemas[strings.TrimPrefix(ref, "#/components/schemas/")] == nil {
			t.Errorf("the payload of %s is not in components/schemas", name)
		}
	}
	for name, schema := range schemas {
		object := schema.(map[string]any)
		if object["title"] != name {
			t.Errorf("schema %s has the title %v", name, object["title"])
		}
		eachObject([]any{object["properties"], object["items"]}, func(inner map[string]any) {
			if _, object := inner["properties"].(map[string]any); object {
				t.Errorf("%s has an object without a name", name)
			}
		})
	}
}

// eachObject calls f for every object in v, except in examples.
func eachObject(v any, f func(object map[string]any)) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			eachObject(element, f)
		}
	case map[string]any:
		f(v)
		for name, member := range v {
			if name != "examples" && name != "example" {
				eachObject(member, f)
			}
		}
	}
}
