package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/agentsignal/agentsignal/actors/audit"
	"github.com/agentsignal/agentsignal/actors/checkpoints"
	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/configs"
	"github.com/agentsignal/agentsignal/persistence"
	"github.com/agentsignal/agentsignal/persistence/audits"
	"github.com/agentsignal/agentsignal/persistence/deliveries"
	"github.com/agentsignal/agentsignal/persistence/eventlog"
	marketstore "github.com/agentsignal/agentsignal/persistence/market"
	outcomestore "github.com/agentsignal/agentsignal/persistence/outcomes"
)

// proof is what makes the record of signals, and what compares the signals with it and with the bars.
type proof struct {
	witnesses   *checkpoints.Witnesses
	checkpoints *checkpoints.Node
	audit       *audit.Node
}

// newProof builds what appends to the record of signals and signs it, and what audits signals by a schedule.
// keeper keeps the newest checkpoint that was seen; nil where Redis ends with the process as well.
func newProof(
	e environment, s *storage, keys *record.Keys, keeper checkpoints.Keeper, webhooks *deliveries.Settings,
) (*proof, error) {
	c := e.config
	trusted, err := record.ParseWitnesses(c.Record.Witnesses)
	if err != nil {
		return nil, fmt.Errorf("record.witnesses: %w", err)
	}
	witnesses := checkpoints.NewWitnesses(s.store.Leaves, keys, trusted)
	return &proof{
		witnesses: witnesses,
		checkpoints: checkpoints.New(s.store.Leaves, keys, checkpoints.Options{
			Every:       time.Duration(c.Record.Every),
			Retention:   time.Duration(c.Signals.Retention),
			Subscribers: webhooks,
			Events:      s.events,
			Witnesses:   witnesses,
			Ask:         askWitness,
			Keeper:      keeper,
			Now:         s.store.Client.Now,
			Log:         e.log,
			Metrics:     checkpoints.NewMetrics(e.registry),
		}),
		audit: audit.NewNode(AuditSources(s.store, c.Costs), audits.New(s.store.Client), audit.NodeOptions{
			Every:       time.Duration(c.Audit.Every),
			Retention:   time.Duration(c.Signals.Retention),
			Partitions:  s.store.Client.Partitions(),
			PartitionOf: s.store.Client.Partition,
			Now:         s.store.Client.Now,
			Log:         e.log,
			Metrics:     audit.NewMetrics(e.registry),
		}),
	}, nil
}

// AuditSources returns what an audit reads.
func AuditSources(store *persistence.Store, c configs.Costs) audit.Sources {
	return audit.Sources{
		Signals:  store.Signals,
		Prices:   marketstore.New(store.Client),
		Outcomes: outcomestore.New(store.Client),
		Records:  store.Leaves,
		Updates:  updates{store.Logs},
		Costs:    CostsOf(c),
		Slippage: c.Slippage,
	}
}

// updates reads the updates of signals in the event log.
type updates struct{ log *eventlog.Store }

// EachUpdate implements audit.Updates.
func (u updates) EachUpdate(ctx context.Context, p int, f func(audit.Update)) error {
	const page = 1000
	var after signal.Position
	for {
		events, err := u.log.ReadLog(ctx, p, after, page)
		if err != nil || len(events) == 0 {
			return err
		}
		for i := range events {
			e := &events[i]
			var data struct {
				ID         signal.SignalID `json:"signal_id"`
				Confidence float64         `json:"confidence"`
			}
			if e.Type == signal.SignalUpdated && json.Unmarshal(e.Data, &data) == nil {
				f(audit.Update{ID: data.ID, Confidence: data.Confidence, At: e.Position.Time()})
			}
		}
		after = events[len(events)-1].Position
	}
}

// maxCosignature bounds the answer of a witness.
const maxCosignature = 16 << 10

// askWitness posts a body to the URL of a witness.
func askWitness(ctx context.Context, url string, body []byte) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxCosignature))
	return answer.StatusCode, text, err
}
