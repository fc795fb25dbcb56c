package importer

import (
	"context"
	"time"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/agent"
)

// connectionPatience is how long a new agent may take to connect until its workload cluster is asked why it does not.
const connectionPatience = time.Minute

// diagnose asks the workload cluster why an agent that could connect does not. One that was connected before has been
// away for longer than the grace of a disconnection.
func (r *Reconciler) diagnose(ctx context.Context, i *installation) agent.Cause {
	if !i.management.known && i.agent.Younger(connectionPatience, r.Clock.Now()) {
		return agent.Unknown
	}
	return i.cluster.Diagnose(ctx, i.agent, r.warnings.of(i.key))
}

// reasonOf returns the reason of an import whose agent does not connect and never has.
func reasonOf(cause agent.Cause) string {
	switch cause {
	case agent.Unknown:
		return ""
	case agent.ScaledDown, agent.NoController, agent.NoScheduler, agent.NoNodes, agent.NodesNotReady,
		agent.Taints, agent.InsufficientResources, agent.NoFittingNode:
		return archelonv1.AgentUnschedulableReason
	case agent.Quota, agent.PodSecurity, agent.WebhookUnavailable, agent.Refused:
		return archelonv1.AgentPodsRefusedReason
	case agent.ImagePull:
		return archelonv1.AgentImageUnavailableReason
	case agent.NotStartable, agent.CrashLoop, agent.OutOfMemory:
		return archelonv1.AgentCrashingReason
	case agent.ServerUnresolvable, agent.ServerUnreachable, agent.ServerNotTrusted:
		return archelonv1.AgentCannotReachRancherReason
	default:
		return archelonv1.WaitingForAgentReason
	}
}

// explain returns what users read about a cause, and what they can do. Nothing in it comes from the workload cluster.
func explain(cause agent.Cause) string {
	return map[agent.Cause]string{
		agent.ScaledDown: "Deployment cattle-system/cattle-cluster-agent in the workload cluster has 0 replicas or is paused. " +
			"Scale it to 1, and resume its rollout",
		agent.NoController: "Deployment cattle-system/cattle-cluster-agent in the workload cluster has no Pods, and nothing refuses them. " +
			"Check that kube-controller-manager runs in its control plane",
		agent.NoScheduler: "The scheduler of the workload cluster has not looked at the agent's Pod. " +
			"Check that kube-scheduler runs in its control plane",
		agent.NoNodes: "The workload cluster has no Node that could run its Pod. " +
			"Add Nodes, for example by a MachineDeployment, and check that their Machines come up",
		agent.NodesNotReady: "Its Pod waits, because no Node of the workload cluster is ready. " +
			"Check that the network plugin (CNI) of the workload cluster is installed, and its cloud controller manager if it needs one",
		agent.Taints: "No Node of the workload cluster accepts its Pod, because of taints that the agent does not tolerate. " +
			"Remove the taints, add Nodes without them, or tolerate them by appendTolerations in annotation " + archelonv1.AgentDeploymentAnnotation +
			" on this Cluster, which your administrator has to allow in the Helm value import.agentSettings",
		agent.InsufficientResources: "No Node of the workload cluster has room for its Pod. Add Nodes, or lower what the agent requests by " +
			"overrideResourceRequirements in annotation " + archelonv1.AgentDeploymentAnnotation +
			" on this Cluster, which your administrator has to allow in the Helm value import.agentSettings",
		agent.NoFittingNode: "No Node of the workload cluster fits its Pod. Check whether Nodes are cordoned, and the node affinity of " +
			"Deployment cattle-system/cattle-cluster-agent. The Events of its Pods in the workload cluster name what does not fit",
		agent.Quota: "A ResourceQuota of namespace cattle-system in the workload cluster refuses its Pods. " +
			"Raise or delete the ResourceQuota. If it demands requests and limits, set them by overrideResourceRequirements in annotation " +
			archelonv1.AgentDeploymentAnnotation + " on this Cluster, which your administrator has to allow in the Helm value import.agentSettings",
		agent.PodSecurity: "Pod Security in namespace cattle-system of the workload cluster refuses its Pods. " +
			"Set label pod-security.kubernetes.io/enforce on that Namespace to \"privileged\". For further clusters, ask your administrator to set the " +
			"Helm value import.agentPodSecurity to \"privileged\"",
		agent.WebhookUnavailable: "An admission webhook of the workload cluster does not answer, so its API server refuses the agent's Pods. " +
			"The Events of namespace cattle-system there name the webhook. Repair it, or exempt namespace cattle-system from it",
		agent.Refused: "The API server of the workload cluster refuses its Pods, for example by an admission policy. " +
			"The Events of namespace cattle-system there name what refuses them. Exempt namespace cattle-system from it",
		agent.Starting: "Its Pod has a Node, and its container has not started yet: the Node may still pull the image. After 5 minutes, look at " +
			"the Events of the Pods in namespace cattle-system of the workload cluster, which name problems of its network plugin and volumes",
		agent.ImagePull: "Nodes of the workload cluster cannot pull its image. Check that they reach the registry, that it has the image, " +
			"and that they have credentials for it. Setting system-default-registry in Rancher names the registry, if it is not Docker Hub",
		agent.NotStartable: "The container runtime of the workload cluster cannot start its container. " +
			"The Events of the Pods in namespace cattle-system there name the cause",
		agent.CrashLoop: "Its container ends again and again. Read its log in the workload cluster: " +
			"kubectl logs -n cattle-system -l app=cattle-cluster-agent --previous",
		agent.OutOfMemory: "Its container is killed, because it uses more memory than its limit, or than its Node has. " +
			"Raise the limit by overrideResourceRequirements in annotation " + archelonv1.AgentDeploymentAnnotation +
			" on this Cluster, which your administrator has to allow in the Helm value import.agentSettings, or add larger Nodes",
		agent.Running: "Its Pod runs, and its log names no known cause. Check that the workload cluster reaches the server-url of Rancher, also by " +
			"WebSocket, and read the log there: kubectl logs -n cattle-system -l app=cattle-cluster-agent",
		agent.ServerUnresolvable: "It cannot resolve the host name in the server-url of Rancher. " +
			"Add the name to the DNS that the workload cluster uses, and check CoreDNS there",
		agent.ServerUnreachable: "It gets no connection to the server-url of Rancher. Check routes and firewalls from the workload cluster to Rancher, " +
			"and the load balancer of Rancher. If a proxy is needed, set it by annotation " + archelonv1.AgentEnvAnnotation + " on this Cluster",
		agent.ServerNotTrusted: "It does not trust the certificate of Rancher. Ask your administrator to compare the certificate of server-url " +
			"with the settings cacerts and agent-tls-mode in Rancher",
		agent.PodsUnreadable: "The cause is unknown, because the user of the kubeconfig may not list Pods in namespace cattle-system of the workload cluster. " +
			"Look at the Pods there, or use the kubeconfig of a cluster-admin",
		agent.ReplicaSetsUnreadable: "The cause is unknown, because the user of the kubeconfig may not list ReplicaSets in namespace cattle-system of the " +
			"workload cluster. Look at the ReplicaSets there, or use the kubeconfig of a cluster-admin",
		agent.PodSecurityWarned: "The API server of the workload cluster warned that its Pods violate Pod Security. Whether it refuses them is unknown, because " +
			"the user of the kubeconfig may not list Pods and ReplicaSets there. Look at the Events of namespace cattle-system, " +
			"or use the kubeconfig of a cluster-admin",
	}[cause]
}
