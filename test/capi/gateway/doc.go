// Package gateway stands in front of the API server of a workload cluster that Cluster API's in-memory
// infrastructure made, and adds what each conformant API server has, that one lacks, and an importer or
// Rancher's agent needs. Everything else goes through unchanged, the connections to etcd included, which the
// control plane provider has forwarded.
//
//   - Server-side apply. The importer writes with nothing else. There is no management of fields: an apply creates or
//     merges.
//   - Authentication by a client certificate of the cluster's CA, 401 without one. It shows who uses which kubeconfig,
//     and a certificate can be refused.
//   - GET /version, which Rancher's agent reports.
//   - Jobs, with which Rancher cleans up. They are kept by the gateway itself.
//   - The deletion of collections, and of what is in a namespace together with it: the same.
//   - Names from generateName: the same.
//   - Owners that are in no namespace. They are left out, for nothing is deleted because of them.
//
// The API server behind it is reached as soon as there is one. Before that connections are refused, and while
// it is stopped they are cut.
package gateway
