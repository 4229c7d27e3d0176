package signals

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentsignal/agentsignal/actors/signal"
	"github.com/agentsignal/agentsignal/persistence/codec"
	"github.com/agentsignal/agentsignal/persistence/redisclient"
	"github.com/agentsignal/agentsignal/persistence/storetest"
)

const scannedID = signal.SignalID("sig_01M7YQ1WTVKN9DZNWV9NV456V1")

// A pass over the log reads a record as it was stored.
func TestRecordsAreScanned(t *testing.T) {
	t.Parallel()
	at := signal.Position{MS: 1795253400123, Seq: 1}
	expires := at.Time().Add(time.Hour)
	for name, s := range map[string]*signal.Signal{
		"trading":                {Agent: "trading", Asset: "BTC", ExpiresAt: expires},
		"content":                {Agent: "seo", Asset: "standing desk"},
		"weather":                {Agent: "weather", Asset: "CORN", ExpiresAt: expires, Weather: scannedWeather()},
		"weather without expiry": {Agent: "weather", Weather: &signal.Outlook{}},
	} {
		t.Run(name, func(t *testing.T) {
			s.ID, s.CreatedAt = scannedID, at.Time()
			s.Account, s.Run = storetest.Account, "run_01M7YQ1WPJA84WKP9M7T9BM2EX"
			s.Levels = &signal.Levels{Entry: 1, Stop: 2, Target: .5}
			checkScanned(t, at, s)
		})
	}
}

func scannedWeather() *signal.Outlook {
	event := signal.WeatherEvent{
		Type: signal.Drought, Severity: "extreme", Location: "Des Moines", ForecastDate: "2026-07-21", Deviation: -2.5,
	}
	return &signal.Outlook{
		Commodity: "corn", Region: "us", Likelihood: .8125, ExpectedImpact: "crop stress", Event: event,
	}
}

// checkScanned compares the entry that a pass makes of the record of s with s.
func checkScanned(t *testing.T, at signal.Position, s *signal.Signal) {
	t.Helper()
	var got signal.LogEntry
	log := logScan{known: knownTexts{}, f: func(e signal.LogEntry) error {
		got = e
		return nil
	}}
	log.add(&redisclient.Entry{Position: at, Header: codec.AppendRecord(nil, s, time.Time{})})
	if log.bad.first != nil || signal.SignalIDFromBytes(got.ULID) != s.ID {
		t.Fatalf("scanned as %+v: %v", got, log.bad.first)
	}
	if diff := cmp.Diff(s.Weather, got.Weather); diff != "" {
		t.Errorf("scanned weather (-want +got):\n%s", diff)
	}
}

// FuzzScan: no content of the log or of the open signals makes a pass panic.
func FuzzScan(f *testing.F) {
	s := &signal.Signal{ID: scannedID, Account: storetest.Account, Weather: scannedWeather()}
	stamps := "1795253400123-1 1795253400999-0 "
	f.Add(codec.AppendRecord(nil, s, time.Time{}))
	f.Add(codec.AppendOpen([]byte(stamps), s, time.Time{}))
	f.Add(codec.AppendClosed([]byte(stamps), s))
	f.Fuzz(func(_ *testing.T, b []byte) {
		log := logScan{f: func(signal.LogEntry) error { return nil }, known: knownTexts{}}
		log.add(&redisclient.Entry{Header: b})
		open := openScan{known: knownTexts{}}
		open.add([]byte("x"), b)
	})
}
