package audits

import (
	"testing"
	"time"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/redistest"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

func TestResultsOfAudits(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	s := New(storetest.Client(t, redisclient.Options{URL: server.URL(), Partitions: 2, Timeout: time.Minute}))
	mine, other := storetest.AccountIn(s, 1), storetest.AccountIn(s, 1)
	_, _, err := s.Audit(t.Context(), mine)
	storetest.WantKind(t, "before the first audit", err, signal.KindNotFound)
	_, err = s.AuditedAt(t.Context(), 1)
	storetest.WantKind(t, "before the first audit", err, signal.KindNotFound)
	at := time.UnixMilli(1795253400123).UTC()
	for _, results := range []map[signal.AccountID][]byte{{mine: []byte("a"), other: []byte("b")}, {mine: []byte("c")}} {
		storetest.Must(t, s.StoreAudits(t.Context(), 1, at, results))
		for _, account := range []signal.AccountID{mine, other} {
			got, result, err := s.Audit(t.Context(), account)
			if string(result) != string(results[account]) || !got.Equal(at) || err != nil {
				t.Errorf("%q at %v, %v; want %q", result, got, err, results[account])
			}
		}
	}
	if got, err := s.AuditedAt(t.Context(), 1); !got.Equal(at) || err != nil {
		t.Errorf("at %v, %v", got, err)
	}
}

func TestTheStoreInsideAProcess(t *testing.T) {
	t.Parallel()
	redistest.RunInProcess(t, 1, nil)
}

func TestMain(m *testing.M) { storetest.Main(m) }
