package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/actors/signal/delivery"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
)

const (
	// accountsAtOnce is how many accounts are read in one round trip.
	accountsAtOnce = 100
	// deliveriesAtOnce is how many deliveries are, with their payloads.
	deliveriesAtOnce = 50
	// stringsAtOnce is how many replies or forecasts are.
	stringsAtOnce = 100
	// scanCount is the COUNT of a scan, and how many fields or entries a record or a read has.
	scanCount = 1000
)

// header is the first record.
type header struct {
	CreatedAt  time.Time `json:"created_at"`
	Build      string    `json:"build"`
	Partitions int       `json:"partitions"`
	Formats    int       `json:"formats"` // codec.Version
}

// Summary is what a backup has.
type Summary struct {
	CreatedAt  time.Time `json:"created_at"`
	Build      string    `json:"build"` // the version of agentsignal that made it
	Partitions int       `json:"partitions"`

	Accounts   int `json:"accounts"`
	APIKeys    int `json:"api_keys"`
	Webhooks   int `json:"webhooks"`
	Deliveries int `json:"pending_deliveries"`
	Schedules  int `json:"schedules"`
	Jobs       int `json:"jobs"`
	Events     int `json:"events"`
	Entries    int `json:"signal_log_entries"`
	Open       int `json:"open_signals"`
	Leaves     int `json:"record_leaves"`

	// SealedByOthers is how many webhooks have a secret that the given keys do not open.
	SealedByOthers int `json:"secrets_of_other_keys"`
	// Unreadable is how many entries have no account and were left out, because the number of partitions differs.
	Unreadable int `json:"unreadable_entries"`
}

// count counts a record.
func (s *Summary) count(k kind) {
	counts := map[kind]*int{kindAccount: &s.Accounts, kindAPIKey: &s.APIKeys, kindWebhook: &s.Webhooks,
		kindDelivery: &s.Deliveries, kindSchedule: &s.Schedules, kindJob: &s.Jobs, kindEvent: &s.Events,
		kindSignal: &s.Entries, kindOpen: &s.Open, kindLeaf: &s.Leaves}
	if n := counts[k]; n != nil {
		*n++
	}
}

// Opens reports whether the secret of a webhook can be decrypted.
type Opens func(webhook signal.WebhookID, sealed []byte) bool

// check counts w if opens cannot decrypt a secret of it. Without opens nothing is counted.
func (s *Summary) check(w *delivery.Webhook, opens Opens) {
	if opens != nil && (!opens(w.ID, w.Secret) || w.PreviousSecret != nil && !opens(w.ID, w.PreviousSecret)) {
		s.SealedByOthers++
	}
}

// saver writes a backup.
type saver struct {
	*redisclient.Client
	logs    *eventlog.Store
	w       *writer
	opens   Opens
	summary Summary
	cuts    []cut

	settings map[string]bool // the saved webhooks and schedules, by account and identifier
}

// Save writes a backup of the installation of c to w, while its nodes run. See the package comment for
// what it has. opens may be nil. build is the version of this program.
func Save(ctx context.Context, c *redisclient.Client, w io.Writer, build string, opens Opens) (Summary, error) {
	out, err := newWriter(w)
	if err != nil {
		return Summary{}, err
	}
	s := &saver{Client: c, logs: eventlog.New(c), w: out, opens: opens, cuts: make([]cut, c.Partitions()),
		settings: map[string]bool{},
		summary:  Summary{CreatedAt: c.Now().Truncate(time.Second), Build: build, Partitions: c.Partitions()}}
	h := header{s.summary.CreatedAt, build, c.Partitions(), codec.Version}
	text, err := json.Marshal(h)
	if err != nil {
		return Summary{}, err
	}
	if err := s.add(kindHeader, text); err != nil {
		return Summary{}, err
	}
	// The order matters: see the package comment.
	for _, section := range []func(context.Context) error{s.saveCheckpoints, s.savePositions, s.saveSettings, s.saveMails,
		s.savePartitions, s.saveEvents, s.saveSignals, s.saveLeaves, s.saveLogEnds, s.saveOutbox, s.saveAccounts,
		s.saveMarket, s.saveScanned, s.saveNewSettings} {
		err := section(ctx)
		if e := s.w.end(); err == nil && e != nil {
			err = contentError{fmt.Errorf("write the backup: %w", e)}
		}
		if _, ours := errors.AsType[contentError](err); ours {
			return Summary{}, err
		}
		if err != nil {
			return Summary{}, redisclient.Failed(err, "back up")
		}
	}
	return s.summary, out.close()
}

// contentError is an error that is not one of Redis: the file cannot be written, or Redis has what no backup can have.
type contentError struct{ error }

// Unwrap returns the error itself.
func (e contentError) Unwrap() error { return e.error }

// add writes a record.
func (s *saver) add(k kind, fields ...[]byte) error {
	s.summary.count(k)
	if err := s.w.add(k, fields...); err != nil {
		return contentError{fmt.Errorf("write the backup: %w", err)}
	}
	return nil
}

// texts returns fields.
func texts(list ...string) [][]byte {
	fields := make([][]byte, len(list))
	for i, t := range list {
		fields[i] = []byte(t)
	}
	return fields
}

// pairs returns the fields and values of a hash behind others, in the order of their names.
func pairs(first []string, hash map[string]string) [][]byte {
	names := make([]string, 0, len(hash))
	for name := range hash {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		first = append(first, name, hash[name])
	}
	return texts(first...)
}

func score(z redis.Z) string { return strconv.FormatFloat(z.Score, 'f', -1, 64) }

// noKey is the answer to PEXPIRETIME for a key that does not exist.
const noKey = time.Duration(-2)

func member(z redis.Z) string { m, _ := z.Member.(string); return m }

// untilText returns when a key expires, in ms; 0 if it does not.
func untilText(until *redis.DurationCmd) string {
	return strconv.FormatInt(max(0, until.Val().Milliseconds()), 10)
}
