// Package realrancher runs a real Rancher for tests, in one of two ways.
//
// Install installs it with Rancher's own Helm chart in clusters of kind, as its users do. Images are pulled, or are in
// the nodes already.
//
// Start is for where there are no images, or no container engine: Rancher, its webhook and its agent as programs,
// beside real API servers. The directory that Options.Programs names has them: bin/rancher, bin/webhook, podbin with
// what is in the agent's image (agent, run.sh, kubectl, catatonit), and version. make rancher-programs takes them from
// Rancher's images. Everything runs in a network namespace without a way out, which run.sh creates, because Rancher
// would ask the internet. Each agent Pod has a network namespace of its own in it, and a root of its own: see root.sh.
// Only root can do that. What is not as in an installation: Fleet and Turtles are off, because their charts cannot be
// had; the Pods of Rancher and its webhook are objects alone, so that their Services lead to the programs.
//
// Nothing of Rancher is in this repository.
package realrancher
