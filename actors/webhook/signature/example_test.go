package signature_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/agentsignal/agentsignal/actors/webhook/signature"
)

// A receiver verifies a request with the secret that it was given at the registration.
func ExampleVerify() {
	const secret = "whsec_c2lnbmFsLXNlcnZpY2UtdGVzdC1zZWNyZXQtMDEyMzQ="
	body := []byte(`{"id":"evt_1","type":"signal.created"}`)
	sent := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	header := http.Header{}
	header.Set(signature.HeaderStandardID, "evt_1")
	header.Set(signature.HeaderStandardTimestamp, strconv.FormatInt(sent.Unix(), 10))
	header.Set(signature.HeaderStandardSignature, signature.SignStandard(secret, "evt_1", sent.Unix(), body))

	fmt.Println(signature.Verify(secret, header, body, sent.Add(time.Second)))
	err := signature.Verify(secret, header, body, sent.Add(time.Hour))
	fmt.Println(errors.Is(err, signature.ErrBadTime))
	err = signature.Verify(secret, header, []byte(`{"id":"evt_2"}`), sent)
	fmt.Println(errors.Is(err, signature.ErrBadSignature))
	// Output:
	// <nil>
	// true
	// true
}
