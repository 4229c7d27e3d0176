package backup

import (
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
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

// check counts a webhook if opens cannot decrypt a secret of it. Without opens nothing is counted.
func (s *Summary) check(stored *deliveries.Copied, opens Opens) error {
	w, err := stored.Webhook()
	if err == nil && opens != nil && (!opens(w.ID, w.Secret) || w.PreviousSecret != nil && !opens(w.ID, w.PreviousSecret)) {
		s.SealedByOthers++
	}
	return err
}
