// Package baremetal gives BareMetalHosts of this cluster to HostClaims.
//
// How a claim gets a host. A finalizer comes first. Then the name of the host goes into the status of the claim, and
// from then on no other host is looked at until that one, as the API server has it, is found to be taken or unfit. Then
// the claim becomes the consumerRef of the host. Each write fails if what it was decided on is not the newest version.
// So a claim has at most one host, whatever gets lost in between, and what a host's consumerRef says is all that
// counts: what the claim says of its host is for people.
//
// How it loses it. All that the claim has put on the host is taken off. When the host is clean, the consumerRef goes,
// then the finalizer.
package baremetal
