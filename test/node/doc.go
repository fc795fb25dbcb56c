// Package node stands in for the scheduler, the kubelet and the container runtime of a control plane that test/env has
// started with Workloads: it binds Pods and runs their containers as programs of this machine, so that Deployments roll
// out, Jobs complete and a chart can be installed for real.
//
// What a Pod is given is what a kubelet would give it: arguments and environment with $(VAR) expanded, the downward
// API, Secrets and ConfigMaps as files that are replaced at once, a token of its ServiceAccount that is bound to the
// Pod, probes, restarts with back-off, a graceful end. What it asks for and the node does not know, such as init
// containers or exec probes, is refused with the reason in its status.
//
// A program of this machine sees this machine's files and network. So
//
//   - each container has a directory for its root, with a link at each mountPath, and a mountPath that an argument or a
//     variable mentions is rewritten to the path below that directory. $TMPDIR is tmp below it.
//   - a declared containerPort is moved to a free port of 127.0.0.1: ":8080" in an argument or a variable, also behind
//     0.0.0.0, [::], 127.0.0.1, localhost or the Pod's IP, becomes "127.0.0.1:41234". Address tells which. A port that
//     nothing mentions cannot be moved and is refused, because replicas would fight over it.
//   - the API server is reached by a kubeconfig, to which $KUBECONFIG leads in each container in which a token is
//     mounted at the usual path.
//
// Not there: resource limits, users (runAsUser is only checked), a read-only root, constraints on scheduling, Services,
// Events, renewal of tokens, which outlive a test.
package node
