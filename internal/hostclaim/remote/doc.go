// Package remote has HostClaims of other clusters stand for claims of this one. The claim here is the source, the one
// in the other cluster its target.
//
// How a source gets a target. A finalizer comes first. Then the other cluster is asked whether it has the target
// already: its name follows from the source. Then the status of the source says where the target is going to be, and
// only then it is created there, after the Secrets that it names. So a source has one target, whatever gets lost in
// between, and if its credentials come to lead somewhere else, no second one is created there.
//
// How it loses it. The target is deleted. When it is gone, with what the other cluster has to do for that, its Secrets
// are deleted, and then the finalizer goes.
//
// Nobody waits for another cluster: what follows it runs beside the workers, which ask it only while it answers.
package remote
