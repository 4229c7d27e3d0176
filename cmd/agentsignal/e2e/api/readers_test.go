package api

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/agentsignal/agentsignal/cmd/agentsignal/e2e"
)

// wireReader is a reader in lists and, with its secret, as it is made.
type wireReader struct {
	ID          string         `json:"key_id"`
	Secret      string         `json:"api_key"`
	Name        string         `json:"name"`
	View        map[string]any `json:"view"`
	Max         int            `json:"max_connections"`
	Connections int            `json:"connections"`
}

type wireReaders struct {
	APIKeys []wireReader `json:"api_keys"`
	Total   int          `json:"total"`
}

func makeReaders(user *e2e.Client, prefix string, count int, view string) []wireReader {
	user.TB.Helper()
	body := fmt.Sprintf(`{"name_prefix":%q,"count":%d,"view":%s}`, prefix, count, view)
	return e2e.Decode[wireReaders](user.TB, user.Post("/v1/auth/api-keys/batch", body).Ok(user.TB).Body).APIKeys
}

func listReaders(user *e2e.Client, query string) wireReaders {
	user.TB.Helper()
	return e2e.Decode[wireReaders](user.TB, user.Get("/v1/auth/api-keys?view=true"+query).Ok(user.TB).Body)
}

// TestReadersAreMadeListedAndRevoked by the hundred, in pages and by their names.
func TestReadersAreMadeListedAndRevoked(t *testing.T) {
	t.Parallel()
	s := e2e.Shared(t)
	user, _, _ := s.User(t)
	other := user.Key("plain-1", "")
	readers := makeReaders(user, "plain", 120, `{"assets":["bitcoin"]}`)
	if readers[0].Name != "plain-2" || readers[119].Name != "plain-121" { // behind the key plain-1
		t.Errorf("names from %s to %s", readers[0].Name, readers[119].Name)
	}
	more := makeReaders(user, "plain", 1, `{}`)
	if more[0].Name != "plain-122" {
		t.Errorf("the next name is %s", more[0].Name)
	}
	var listed []string
	for offset := 0; offset < 130; offset += 50 {
		page := listReaders(user, fmt.Sprintf("&limit=50&offset=%d", offset))
		if page.Total != 121 {
			t.Errorf("total %d", page.Total)
		}
		for _, r := range page.APIKeys {
			listed = append(listed, r.Name)
		}
	}
	if len(listed) != 121 || listed[0] != "plain-122" || listed[1] != "plain-121" || listed[120] != "plain-2" {
		t.Errorf("listed %d: %s", len(listed), listed)
	}
	if got := fmt.Sprint(listReaders(user, "&limit=1&offset=1").APIKeys[0].View); got != "map[assets:[BTC]]" {
		t.Errorf("a view is %s", got)
	}
	if keys := e2e.Decode[wireReaders](t, user.Get("/v1/auth/api-keys").Ok(t).Body); keys.Total != 1 ||
		keys.APIKeys[0].Name != "plain-1" {
		t.Errorf("other keys: %+v", keys)
	}
	user.With(readers[0].Secret).Get("/v1/auth/api-keys?view=true").Fails(t, "jwt_required")

	revoke := func(prefix string) string {
		return user.Do(http.MethodDelete, "/v1/auth/api-keys?name_prefix="+prefix, "").Ok(t).Body
	}
	user.Do(http.MethodDelete, "/v1/auth/api-keys/"+readers[1].ID, "").Want(t, http.StatusNoContent)
	for i, r := range readers[:3] {
		if _, err := s.Credentials().Authenticator.Authenticate(t.Context(), r.Secret); (err != nil) != (i == 1) {
			t.Errorf("reader %d: %v", i, err)
		}
	}
	if got := revoke("plain-1") + revoke("plain-1") + revoke("plain"); got != `{"revoked":33}{"revoked":0}{"revoked":87}` {
		t.Errorf("revoked %s", got)
	}
	for _, r := range append(readers, more...) {
		user.With(r.Secret).Get("/v1/signals").Fails(t, "invalid_token")
	}
	user.With(other.Secret).Get("/v1/signals").Ok(t)
}
