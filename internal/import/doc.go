// Package importer imports CAPI clusters into Rancher and follows them until they leave.
//
// A reconcile runs a visible list of phases; the first that is not Done stops it. What differs
// between provisioning.cattle.io/v1 and management.cattle.io/v3 Rancher clusters is behind
// Strategy. In this package "record" means the Rancher cluster made for a CAPI cluster.
package importer
