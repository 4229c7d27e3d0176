package http

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/actors/spelling"
	"github.com/agentsignal/agentsignal/http/credentials"
	"github.com/agentsignal/agentsignal/http/request"
)

// Readers keeps API keys that have a view. Its errors are those of Keys. See credentials.Readers.
type Readers interface {
	CreateReader(ctx context.Context, account signal.AccountID, name string, n credentials.NewReader) (
		credential.APIKey, string, error)
	// CreateReaders creates readers whose names are prefix and a number, and returns them with their secrets.
	CreateReaders(ctx context.Context, account signal.AccountID, prefix string, count int, n credentials.NewReader) (
		[]credential.APIKey, []string, error)
	ListReaders(ctx context.Context, account signal.AccountID, limit, offset int) ([]credential.APIKey, int, error)
	// RevokeReaders ends the readers whose names begin with prefix, and returns their number.
	RevokeReaders(ctx context.Context, account signal.AccountID, prefix string) (int, error)
}

// ReaderConnections counts the streams of readers.
type ReaderConnections interface {
	// ReaderConnections returns how many streams each of the readers has, over all nodes. Those without one may be missing.
	ReaderConnections(ctx context.Context, readers []signal.KeyID) (map[signal.KeyID]int, error)
}

// ReaderOptions is what the handlers of readers need.
type ReaderOptions struct {
	Readers     Readers
	Connections ReaderConnections // nil: they have none
	Agents      *AgentCatalogue   // with Assets and Suggester: for the names of views
	Assets      AssetNames
	Suggester   AssetSuggester
	Now         func() time.Time
}

// ReaderHandlers answer for readers. Their routes are those of KeyHandlers.
type ReaderHandlers struct{ o ReaderOptions }

// NewReaderHandlers returns the handlers of readers.
func NewReaderHandlers(o ReaderOptions) *ReaderHandlers { return &ReaderHandlers{o} }

// readerTerms is what an API key object has of a reader.
type readerTerms struct {
	View           *signal.View `json:"view"`
	MaxConnections int          `json:"max_connections"`
	Notice         string       `json:"notice"`
}

// viewTerms returns nil for a key that is no reader.
func viewTerms(k *credential.APIKey) *readerTerms {
	if k.View == nil {
		return nil
	}
	return &readerTerms{k.View, k.MaxConnections, notice(k.View)}
}

// notice returns what an account should know of a reader with this view.
func notice(v *signal.View) string {
	for _, set := range []struct {
		name  string
		names signal.Names
	}{{"agents", v.Agents}, {"assets", v.Assets}, {"strategies", v.Strategies}} {
		if !set.names.All() && len(set.names.List()) == 0 {
			return "This reader sees no signal, since " + set.name + " is an empty list. Without " + set.name +
				" it would see all of them."
		}
	}
	return "The proof of a signal shows a reader the id of the account and how many signals the account has, since the record " +
		"covers both."
}

// read reads what a key shares with others that are made by the same request, except its scopes. Without a view it is
// that of a key that is no reader.
func (h *ReaderHandlers) read(c *call, o *request.Object) credentials.NewReader {
	n := credentials.NewReader{View: h.readView(c, o)}
	if seconds, ok := o.Integer("expires_in", 1, credentials.MaxExpiresIn); ok {
		n.ExpiresIn = &seconds
	}
	connections, ok := o.Integer("max_connections", 1, credentials.MaxReaderConnections)
	if ok && !o.Has("view") {
		o.Bad("max_connections", request.CodeInvalidValue,
			"belongs to a reader, a key with a view: give it view, which may be {}")
	}
	n.MaxConnections = int(connections)
	return n
}

// readView reads the view of a reader. It returns nil if none is given, and also if it is not valid.
func (h *ReaderHandlers) readView(c *call, o *request.Object) *signal.View {
	in, ok := o.Object("view")
	if !ok {
		return nil
	}
	given := ""
	if in.Has("agents") || in.Has("strategies") {
		given = "of the account" // perhaps
	}
	ids, strategies, err := h.o.Agents.filterNames(c.r.Context(), &c.principal, given)
	if err != nil {
		c.faults.Fail(err)
	}
	agents := readNames(in, "agents", knownName("agent", texts(ids)))
	assets := readNames(in, "assets", func(item string) (name, code, detail string) {
		code, detail = checkFilterAsset(c, h.o.Suggester, item)
		return h.o.Assets.Name(item), code, detail
	})
	named := readNames(in, "strategies", knownName("strategy", strategies))
	in.Close()
	return signal.NewView(agents, assets, named)
}

// readNames reads one set of a view. check returns the name that it has for an item.
func readNames(in *request.Object, member string, check func(item string) (name, code, detail string)) signal.Names {
	const rule = "must be a list of names; without it the reader sees all, with an empty list none"
	if in.Null(member) {
		in.Bad(member, request.CodeInvalidType, rule)
	}
	var names []string
	if _, ok := in.Texts(member, signal.MaxViewNames, rule, func(item string) (code, detail string) {
		name, code, detail := check(strings.TrimSpace(item))
		names = append(names, name)
		return code, detail
	}); !ok {
		return signal.Names{}
	}
	return signal.NamesOf(names...)
}

// knownName returns a check of names that must be among known.
func knownName(kind string, known []string) func(string) (name, code, detail string) {
	return func(item string) (name, code, detail string) {
		if slices.Contains(known, item) {
			return item, "", ""
		}
		advice := strings.TrimSpace(spelling.DidYouMean(spelling.Nearest(item, known)) + " GET /v1/agents lists all")
		return item, request.CodeInvalidValue, "there is no such " + kind + ": " + advice
	}
}

func texts[T ~string](items []T) []string {
	return views(items, func(t *T) string { return string(*t) })
}

// newReaders is the answer to createMany.
type newReaders struct {
	APIKeys []newReaderView `json:"api_keys"`
	*readerTerms
}

type newReaderView struct {
	KeyID  signal.KeyID `json:"key_id"`
	APIKey string       `json:"api_key"`
	Name   string       `json:"name"`
}

// createMany answers POST /v1/auth/api-keys/batch.
func (h *ReaderHandlers) createMany(c *call) error {
	var prefix string
	var count int64
	var in credentials.NewReader
	if err := c.decode(func(o *request.Object) {
		prefix = readKeyName(o, "name_prefix", credentials.MaxKeyPrefix)
		o.Require("count", fmt.Sprintf("must be from 1 to %d", credentials.MaxReadersAtOnce))
		count, _ = o.Integer("count", 1, credentials.MaxReadersAtOnce)
		o.Require("view", "must be an object, such as {}: only readers are made by the hundred")
		in = h.read(c, o)
	}); err != nil {
		return err
	}
	keys, secrets, err := h.o.Readers.CreateReaders(c.client(), c.principal.Account, prefix, int(count), in)
	if err != nil {
		return err
	}
	made := newReaders{make([]newReaderView, len(keys)), viewTerms(&keys[0])}
	for i, k := range keys {
		made.APIKeys[i] = newReaderView{k.ID, secrets[i], k.Name}
	}
	return c.value(http.StatusOK, made)
}

// readerView is a reader in lists.
type readerView struct {
	keyView
	View           *signal.View `json:"view"`
	MaxConnections int          `json:"max_connections"`
	Connections    int          `json:"connections"`
}

type readerList struct {
	APIKeys []readerView `json:"api_keys"`
	Total   int          `json:"total"`
}

// list answers GET /v1/auth/api-keys with view=true.
func (h *ReaderHandlers) list(c *call, p request.Page) error {
	readers, total, err := h.o.Readers.ListReaders(c.r.Context(), c.principal.Account, p.Limit, p.Offset)
	if err != nil {
		return err
	}
	var connections map[signal.KeyID]int
	if h.o.Connections != nil {
		ids := views(readers, func(k *credential.APIKey) signal.KeyID { return k.ID })
		if connections, err = h.o.Connections.ReaderConnections(c.r.Context(), ids); err != nil {
			return err
		}
	}
	now := h.o.Now()
	return c.value(http.StatusOK, readerList{views(readers, func(k *credential.APIKey) readerView {
		return readerView{viewKey(k, now), k.View, k.MaxConnections, connections[k.ID]}
	}), total})
}

// minRevokedPrefix is how many characters names must begin with to be revoked together.
const minRevokedPrefix = 3

// revoke answers DELETE /v1/auth/api-keys.
func (h *ReaderHandlers) revoke(c *call) error {
	const rule = "must have 3 to 100 characters, with which the names of the readers to revoke begin"
	prefix, given := c.query.Lookup("name_prefix")
	switch n := utf8.RuneCountInString(prefix); {
	case !given:
		c.faults.Add(request.InQuery, "name_prefix", request.CodeRequired, "name_prefix is required and "+rule)
	case n < minRevokedPrefix:
		c.faults.Add(request.InQuery, "name_prefix", request.CodeTooShort, rule)
	case n > credentials.MaxKeyName:
		c.faults.Add(request.InQuery, "name_prefix", request.CodeTooLong, rule)
	}
	if err := c.faults.Err(); err != nil {
		return err
	}
	n, err := h.o.Readers.RevokeReaders(c.client(), c.principal.Account, prefix)
	if err != nil {
		return err
	}
	return c.value(http.StatusOK, struct {
		Revoked int `json:"revoked"`
	}{n})
}
