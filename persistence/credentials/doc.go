// Package credentials keeps accounts, API keys, sessions and the locks of logins.
//
// They share one slot, since they are looked up before the account is known. The end of a
// credential is stored together with the event that announces it: the event stays in an outbox
// until it is in its account's log. A change is acknowledged once Options.WaitReplicas replicas
// have it. With fewer the error is KindUnavailable, although the change may stay.
package credentials
