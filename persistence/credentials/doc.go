// Package credentials keeps accounts, API keys, sessions and the locks of logins.
//
// They share one slot, since they are looked up before the account is known. The end of a
// credential is stored together with the event that announces it: the event stays in an outbox
// until it is in its account's log. A change is answered when the replicas that are waited for
// have it. Without enough of them it is KindUnavailable, although it may stand.
package credentials
