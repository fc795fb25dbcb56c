// Package rancher is a stand-in for Rancher in tests, benchmarks and the demo. It runs
// against real API servers: it serves the CRDs that Rancher generates, reacts to Rancher
// clusters and registration tokens as Rancher's controllers do, answers the import
// endpoint over HTTPS with a private CA, enforces Rancher's admission rules through a real
// webhook, and plays the agent and its clean-up Job in registered workload clusters, where
// no kubelet is needed. In a cluster with a kubelet the agent can be a program of its own instead: see RealAgent
// and test/standin/agent.
//
// What it imitates is observable behaviour: which objects appear, in which order, in how
// many writes, and what a client must not do. Steps that Rancher does in separate writes
// are separate writes here, so that a client meets the same conflicts. What nothing
// outside Rancher looks at (projects, roles of members, users, nodes, Fleet) is left out; only
// the conditions that report it are set, and the namespaces of projects.
//
// An import goes like this, as it was watched at Rancher 2.15: the agent of the downloaded
// manifest registers (driver, Provisioned); Rancher applies it once more with a token of its own and
// with CATTLE_FEATURES, and meanwhile calls the cluster disconnected (AgentDeployed, and Ready=False);
// the agent that comes back is connected (Connected), then healthy (Ready, and Waiting for good).
// Rancher applies it again when its image, environment, features or token change, or when annotation
// io.cattle.agent.force.deploy asks for it. That it was deleted and installed anew, Rancher does not notice,
// and then it only registers.
//
// Where to find what:
//
//   - crds.go, settings.go: kinds and settings at start
//   - webhook.go, rules.go: admission
//   - cluster_*.go: management.cattle.io/v3 Clusters, from creation to deletion
//   - provisioning_*.go: provisioning.cattle.io/v1 Clusters
//   - registration.go, tokens.go: ClusterRegistrationTokens and rotation
//   - server.go, manifest.go, fault.go: HTTP, with faults on demand
//   - workload.go, agent.go, deploy.go, cleanup.go: the agent downstream
//   - connect.go: agents that are programs of their own
//   - contract.go, control.go: what tests do with it; package remote does it from elsewhere
//   - keep.go: what outlives a restart
//   - namespace.go, projects.go: namespaces, also on API servers without a namespace controller
package rancher
