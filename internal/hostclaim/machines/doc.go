// Package machines lets Metal3Machines get their hosts through HostClaims, with the Metal3 provider of Cluster API as
// it is released. That provider knows BareMetalHosts of the Machine's own namespace alone. So it is given one: a proxy,
// that stands for the host of a claim wherever that is.
//
// A Metal3Machine that says a kind gets a HostClaim of its own name, or one that was kept. When the claim has a host,
// the proxy is created, with the Metal3Machine as its consumer: the provider takes such a host before any other. What
// the provider writes to the proxy goes into the claim, and what becomes of the claim goes into the status of the
// proxy. The baremetal-operator does not work on the proxy, because it is paused.
//
// Claim and proxy belong to the Metal3Machine by their ownerReferences, and nothing has a finalizer of this controller.
// So deletion ends without it, too. If the provider tags a proxy for node reuse, claim and proxy stay for the next
// Metal3Machine of the same control plane or deployment, and keep their name.
package machines
