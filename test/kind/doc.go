// Package kind makes the clusters of the tests that believe nothing but the real thing: one management cluster
// and some workload clusters of kind (https://kind.sigs.k8s.io), with kubelets, Pods, Services, DNS and
// certificates. It needs a Docker engine.
//
// Everything that it makes carries one name, in a network of its own, and goes with Stop; if the process
// dies before, with a watchdog.
//
// Settings in the environment, all optional:
//
//   - KIND_NODE_IMAGE: the image of the nodes, kind's own default otherwise.
//   - KIND_CLUSTER_CONFIG: a file with the configuration of a cluster of kind, to which the mounts of the audit log are
//     added. It may have workers, and one control plane. Without it there is one node, configured as the engine needs
//     it: see config.go.
package kind
