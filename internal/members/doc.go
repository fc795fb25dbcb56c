// Package members gives people roles in the Rancher clusters of CAPI Clusters, as annotation archelon.io/members asks
// for: a ClusterRoleTemplateBinding in the namespace of the Rancher cluster for each member.
//
// The annotation is written by tenants. An administrator lists which role templates may be asked for and for
// whom, and Rancher's webhook checks of each binding that Archelon itself holds what the role template gives
// in Rancher's cluster: there is no verb by which it could bind more. So no permission of a role is among
// those of this package (ADR 0061).
//
// It observes, decides and acts. The name of a binding is a digest of what it binds to whom and for which incarnation
// of a CAPI Cluster: all that is in a binding is immutable in Rancher, and two processes create the same.
package members
