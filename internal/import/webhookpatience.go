package importer

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// While rancher-webhook is away, Rancher cannot take its own finalizers off a Rancher cluster that is deleted. It tries
// again and again, does not remember what it has done, and so makes a clean-up Job in the workload cluster at each try:
// fourteen were seen, until the first Job, after a minute, takes its connection away. Writes of ours that are refused
// cause none of them, because nothing changes by them. So a Rancher cluster is not deleted while the webhook may be
// about to come back.

const (
	// webhookPatience is how long a CAPI cluster that is being deleted waits for rancher-webhook: as long as a Pod
	// takes to be replaced. Cluster API goes on with the deletion meanwhile.
	webhookPatience = 30 * time.Second
	// webhookRecheck is when the webhook is tried again. Nothing that is watched tells of it.
	webhookRecheck = 5 * time.Second
)

const webhookAway = "Waiting for Rancher's admission webhook, which does not answer. Check Deployment cattle-system/rancher-webhook. " +
	"30s after its deletion, this Cluster is released without the webhook. Last error"

// patienceLeft returns for how much longer the deletion of a CAPI cluster waits for rancher-webhook.
func patienceLeft(cluster client.Object, now time.Time) time.Duration {
	since := cluster.GetDeletionTimestamp()
	if since == nil {
		return 0
	}
	age := now.Sub(since.Time)
	if age < -webhookPatience {
		return 0 // The clocks differ too much for an age.
	}
	return max(0, webhookPatience-age)
}
