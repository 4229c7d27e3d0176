package backup

import (
	"context"
	"regexp"
	"strings"

	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

// lost has the rows of the table of keys in persistence/doc.go that a backup does not have, by why. The others are those
// of the sections.
var lost = map[string][]string{
	"it is of the processes that run": {"{pNN}:batch:WRITER", "{pNN}:owner", "{pNN}:confirm", "{pNN}:epoch", "{pNN}:probe",
		"{auth}:confirm", "{auth}:ended", "{node}:confirm", "{node}:assignment", "{node}:live", "{node}:processes",
		"{node}:readers:NODE",
		"{market}:feeder", "{market}:feederepoch"},
	"it is of the moment": {"{auth}:lock:DIGEST", "{limit:CLASS:WHO}", "market:ticks", "market:bars", "{market}:ticks",
		"{market}:closed", "{market}:wants", "{market}:refused:SYMBOL", "{pNN}:alert:ACCOUNT:DIGEST"},
	"it is the history of what was received": {"{pNN}:alerts:ACCOUNT:INTAKE"},
	"it is made again from what is kept":     {"{pNN}:blocks", "{market}:listing:SOURCE"},
	"all have to log in again, since a session that has ended since would be valid again": {"{auth}:session:SESSION",
		"{auth}:sessions:ACCOUNT", "{auth}:refresh:DIGEST"},
	"it is the history of what was sent":              {"{pNN}:succeeded:WEBHOOK"},
	"it is the history of what was given up":          {"{pNN}:failed:WEBHOOK"},
	"the deliveries of removed webhooks are not kept": {"{pNN}:webhookserase"},
	"a restored installation gets an id of its own":   {"{node}:installation"},
}

// keyKind is a row of the table of keys.
type keyKind struct {
	row     string
	pattern *regexp.Regexp
	why     string // a backup does not have it
}

// keyKinds are all rows.
var keyKinds = func() (list []keyKind) {
	for _, s := range sections() {
		for _, row := range s.keys {
			list = append(list, keyKind{row, patternOf(row), ""})
		}
	}
	for why, rows := range lost {
		for _, row := range rows {
			list = append(list, keyKind{row, patternOf(row), why})
		}
	}
	return list
}()

// hashTag and variable are the parts of a row that differ between keys.
var (
	hashTag  = regexp.MustCompile(`^\\\{(pNN|auth|market)\\\}`)
	variable = regexp.MustCompile(`\b[A-Z]{2,}\b`)
)

// patternOf returns an expression for the keys of a row in any installation. Its groups are what differs.
func patternOf(row string) *regexp.Regexp {
	p := hashTag.ReplaceAllString(regexp.QuoteMeta(row), `\{$1(?:-[a-z]{2})?\}`)
	p = variable.ReplaceAllString(strings.Replace(p, "pNN", `p\d+`, 1), `([^:]+)`)
	if last, ok := strings.CutSuffix(p, `([^:]+)`); ok {
		p = last + `(.+)`
	}
	return regexp.MustCompile(`(?s)^` + p + `$`)
}

// kindOfKey returns the row of a key of any installation.
func kindOfKey(key string) (keyKind, bool) {
	for _, k := range keyKinds {
		if k.pattern.MatchString(key) {
			return k, true
		}
	}
	return keyKind{}, false
}

// Kept reports whether a backup has what is under a key, why it has not, and whether the key is of a kind that
// is known.
func Kept(key string) (kept bool, why string, known bool) {
	k, known := kindOfKey(key)
	return known && k.why == "", k.why, known
}

// scanCount is the COUNT of a scan, and how many fields or entries a record or a read has.
const scanCount = 1000

// eachPage calls f for all keys of the Redis of c, page by page.
func eachPage(ctx context.Context, c *redisclient.Client, f func(keys []string) error) error {
	masters, err := c.Servers.Masters(ctx)
	if err != nil {
		return err
	}
	for _, m := range masters {
		for cursor := uint64(0); ; {
			keys, next, err := m.Scan(ctx, cursor, "", scanCount).Result()
			if err == nil {
				err = f(keys)
			}
			if err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	return nil
}
