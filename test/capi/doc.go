// Package capi runs the real controllers of Cluster API against a control plane of test/env: core, kubeadm bootstrap,
// kubeadm control plane, and the development infrastructure provider, whose machines and workload clusters are in
// memory. `make capi` builds them.
//
// What is not as in an installation: the controllers have the rights of an administrator, so nothing here tests Cluster
// API's own roles; they run on this machine and their webhooks are called by URL. Not all of their ports can be moved
// or bound to loopback: the webhook servers listen on free ports of all interfaces, because the managers have a flag
// for the port and none for the address; so do the debug server of the infrastructure provider, on port 19000, and the
// API servers of workload clusters, on ports from 20000 on. Hence there can be one set of controllers on a machine at a
// time. All that they serve is the content of tests.
//
// The API servers of workload clusters know less than an importer needs. Package gateway stands in front of them.
package capi
