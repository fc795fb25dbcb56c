// Package hostclaim has the rules by which a HostClaim gets a host: who may have which host, which hosts are free, and
// which of them is taken. All of it is pure. The controllers of the kinds of hosts are in packages beside this one's
// files: baremetal is for BareMetalHosts of this cluster.
package hostclaim
