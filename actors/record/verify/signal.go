package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
)

// Matches compares a signal, as GET /v1/signals/{id} shows it, with the texts of its leaves; closed
// is empty if the checkpoint has no closing. A member must be what a leaf has recorded, or what
// follows from that: results and times from prices and times, the metadata from its hash. Matches
// returns the members of which neither holds, sorted: they are the word of the service.
func Matches(created, closed string, signal []byte) (unproved []string, err error) {
	var shown map[string]any
	if err := json.Unmarshal(signal, &shown); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	known := map[string]any{}
	for _, text := range []string{created, closed} {
		if text == "" {
			continue
		}
		leaf, err := parseLeaf(text)
		if err != nil {
			return nil, err
		}
		maps.Copy(known, leaf) // a closing repeats signal_id alone
		if id, ok := leaf["signal_id"].(string); !ok || shown["signal_id"] != any(id) {
			return nil, fmt.Errorf("%w: it has another signal_id", ErrDiffers)
		}
	}
	derive(known, closed != "")
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		value, recorded := shown[name], known[name]
		_, ok := known[name]
		switch {
		case name == "metadata":
			if err := matchMetadata(created, closed, value); err != nil {
				return nil, err
			}
		case ok && !same(name, value, recorded):
			return nil, fmt.Errorf("%w: %s is %v and was recorded as %v", ErrDiffers, name, value, recorded)
		case !ok && value != nil && !(name == "confidence" && value == known["initial_confidence"]):
			unproved = append(unproved, name)
		}
	}
	return unproved, nil
}

// members has those that a leaf of each kind may have, of itself and of the signal. A closing has none
// of the forecast.
var members = map[any][]string{
	"created": {"v", "kind", "account", "created", "closed", "signal_id", "previous_created_at", "agent_id", "asset",
		"strategy", "timeframe", "risk_level", "direction", "initial_confidence", "entry_price", "stop_loss", "take_profit",
		"created_at", "expires_at", "metadata", "metadata_sha256"},
	"closed": {"v", "kind", "account", "created", "closed", "signal_id", "signed_leaves", "final_confidence", "mfe_r",
		"mae_r", "closed_at", "close_reason", "exit_price", "metadata"},
}

// parseLeaf reads the text of a leaf, which must have members of its kind alone, each once.
func parseLeaf(text string) (map[string]any, error) {
	leaf, copies := map[string]any{}, map[string]any{}
	err := eachMember(text, func(name string, value json.RawMessage) error {
		if _, twice := leaf[name]; twice {
			return fmt.Errorf("%s stands there twice", name)
		}
		var v any
		err := json.Unmarshal(value, &v)
		if leaf[name] = v; name != "metadata" {
			return err
		}
		return eachMember(string(value), func(name string, _ json.RawMessage) error {
			if _, twice := copies[strings.ToLower(name)]; twice {
				return fmt.Errorf("metadata.%s stands there twice", name)
			}
			copies[strings.ToLower(name)] = true
			return nil
		})
	})
	for name := range leaf {
		if err == nil && !slices.Contains(members[leaf["kind"]], name) {
			err = fmt.Errorf("a leaf of this kind has no %s", name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLeaf, err)
	}
	return leaf, nil
}

// eachMember calls f for each member of a JSON object, in their order.
func eachMember(text string, f func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errors.New("it is no JSON object"), err)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := f(t.(string), value); err != nil { // a name is a string
			return err
		}
	}
	_, err := d.Token()
	return err
}

// derive adds to what leaves have recorded of a signal the members that follow from it.
func derive(known map[string]any, closed bool) {
	for _, name := range []string{"v", "kind", "account", "created", "closed", "signed_leaves",
		"previous_created_at", "metadata", "metadata_sha256"} {
		delete(known, name) // of the leaf, not of the signal
	}
	if !closed {
		return
	}
	known["status"], known["confidence"] = "closed", known["initial_confidence"]
	entry, hasEntry := known["entry_price"].(float64)
	stop, hasStop := known["stop_loss"].(float64)
	exit, hasExit := known["exit_price"].(float64)
	if !hasEntry || !hasStop || !hasExit {
		for name := range decimals {
			known[name] = nil
		}
	} else {
		won := exit - entry
		if known["direction"] == "short" {
			won = -won
		}
		known["r"], known["pnl_absolute"], known["pnl_percent"] = won/math.Abs(entry-stop), won, won/entry*100
	}
	from, err := time.Parse(time.RFC3339, fmt.Sprint(known["created_at"]))
	to, err2 := time.Parse(time.RFC3339, fmt.Sprint(known["closed_at"]))
	if errors.Join(err, err2) == nil {
		known["duration_minutes"] = math.Floor(max(0, to.Sub(from).Minutes()))
	}
}

// decimals has the precision of the members that are computed from prices.
var decimals = map[string]float64{"r": 1e-9, "mfe_r": 5e-5, "mae_r": 5e-5, "pnl_percent": 5.1e-5, "pnl_absolute": 5.1e-9}

// same reports whether a member is shown as it was recorded, or as it was computed from what was.
func same(name string, shown, recorded any) bool {
	a, isNumber := shown.(float64)
	b, isNumberToo := recorded.(float64)
	if tolerance := decimals[name]; isNumber && isNumberToo {
		return a == b || math.Abs(a-b) <= max(tolerance, math.Abs(b)*1e-12)
	}
	return reflect.DeepEqual(shown, recorded)
}

// matchMetadata compares metadata as it is shown with what the leaves have of it: the members that
// a closing has added, a copy of the members that a reader relies on most, and the hash of all.
func matchMetadata(created, closed string, shown any) error {
	var before, after struct {
		Metadata map[string]any `json:"metadata"`
		Hash     string         `json:"metadata_sha256"`
	}
	err := json.Unmarshal([]byte(created), &before)
	if err == nil && closed != "" {
		err = json.Unmarshal([]byte(closed), &after)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLeaf, err)
	}
	members, _ := shown.(map[string]any)
	rest := maps.Clone(members)
	for _, copies := range []map[string]any{after.Metadata, before.Metadata} {
		for _, name := range slices.Sorted(maps.Keys(copies)) {
			if !reflect.DeepEqual(members[name], copies[name]) {
				return fmt.Errorf("%w: metadata.%s is %v and was recorded as %v", ErrDiffers, name, members[name], copies[name])
			}
		}
	}
	for name := range after.Metadata {
		delete(rest, name)
	}
	if sum := sha256.Sum256(Canonical(rest)); hex.EncodeToString(sum[:]) != before.Hash {
		return fmt.Errorf("%w: the metadata is not what was recorded: it has another hash", ErrDiffers)
	}
	return nil
}

// Canonical returns a value that encoding/json has decoded into an any in the form of RFC 8785: no
// space, names in the order of their UTF-16 code units, numbers as ECMAScript writes them.
func Canonical(v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		names := slices.SortedFunc(maps.Keys(v), func(a, b string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		})
		list := make([][]byte, len(names))
		for i, name := range names {
			list[i] = slices.Concat(Canonical(name), []byte(":"), Canonical(v[name]))
		}
		return slices.Concat([]byte("{"), bytes.Join(list, []byte(",")), []byte("}"))
	case []any:
		list := make([][]byte, len(v))
		for i := range v {
			list[i] = Canonical(v[i])
		}
		return slices.Concat([]byte("["), bytes.Join(list, []byte(",")), []byte("]"))
	case float64:
		if v == 0 {
			return []byte("0") // also for minus zero
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // what was decoded can be encoded
	return []byte(separators.Replace(strings.TrimSuffix(b.String(), "\n")))
}

// separators writes what encoding/json escapes beyond RFC 8785.
var separators = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029")
