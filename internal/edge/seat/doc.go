// Package seat has one Archelon at most write the Rancher clusters of a management cluster whose Rancher is elsewhere.
// Who writes holds the seat of the management cluster: a Lease in Rancher's cluster, where all see it that could serve
// the same management cluster by a copied kubeconfig, or because one is a clone of the other. A clone has all that the
// original remembers, so a name alone proves nothing: each process makes up a new one, and takes the seat from its
// predecessor only when nobody renews it.
package seat
