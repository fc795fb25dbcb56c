// Package agentmanifest writes the manifest of Rancher's agent into a Secret beside a CAPI Cluster whose annotation
// archelon.io/agent-delivery is "manual": for workload clusters that cannot be reached from the management cluster.
// Other means, such as a ClusterResourceSet, bootstrap files or a GitOps tool, apply it in the workload cluster.
//
// The package internal/import creates the Rancher cluster and reports when the agent has connected. This package begins
// when the import is about to wait for the agent. It observes, decides and acts. The name of the Secret follows from
// that of the Cluster, which is its controller by an ownerReference, so that clusterctl moves it along. The Secret is
// deleted when the deletion of the Cluster begins: a ClusterResourceSet becomes its second owner, for which Kubernetes
// would keep it. A Secret of that name with another controller, or none, is left alone.
package agentmanifest
