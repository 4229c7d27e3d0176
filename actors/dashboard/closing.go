package dashboard

import "strconv"

// closing is a close code and reason. The comment beside each one is what the client
// should do next.
type closing struct {
	code   int
	reason string
}

// All close frames that the service sends.
var (
	closeBye          = closing{1000, "bye"}                  // answers the client's own close frame
	closeGoingAway    = closing{1001, "going away"}           // reconnect at once and resume
	closeProtocol     = closing{1002, "protocol error"}       // reconnect after a fix
	closeBinary       = closing{1003, "binary frame"}         // the same
	closeBadText      = closing{1007, "bad UTF-8"}            // the same
	closeTooLarge     = closing{1009, "message too large"}    // the same
	closeInternal     = closing{1011, "internal error"}       // reconnect with backoff
	closeLifeless     = closing{4000, "no sign of life"}      // reconnect
	closeSlow         = closing{4008, "slow consumer"}        // reconnect and resume, with a narrower filter
	closeErrors       = closing{4400, "too many errors"}      // reconnect after a fix
	closeUnauth       = closing{4401, "unauthenticated"}      // reconnect with a new credential
	closeForbidden    = closing{4403, "forbidden"}            // do not reconnect
	closeFlood        = closing{4429, "too many messages"}    // reconnect with backoff
	closeTooManyConns = closing{4429, "too many connections"} // the same
)

// codeAbnormal counts connections that ended without a close frame (RFC 6455,
// section 7.4.1).
const codeAbnormal = 1006

// closeCodes lists all values of the label "code".
var closeCodes = []int{1000, 1001, 1002, 1003, codeAbnormal, 1007, 1009, 1011, 4000, 4008, 4400, 4401, 4403, 4429}

func (c closing) label() string {
	if c.code == 0 {
		return strconv.Itoa(codeAbnormal)
	}
	return strconv.Itoa(c.code)
}
